"""Whether anything is lost or duplicated when eight processes write to one graph and are killed at random moments.

    python benchmarks/skill_graph_crash.py                # 200 kills
    python benchmarks/skill_graph_crash.py --kills 20 --writers 4 --json

Every writer adds, changes, learns and recalls, and now and then closes the graph and opens it again. A killed writer is
replaced by one that repeats the last steps, like a caller who doesn't know whether the last call arrived. One kill in
five comes while the writer is still opening the graph.

What was acknowledged to a writer is recorded outside of the graph, and the graph is read with SQL that shares no code
with the library.
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agentfw_benchmarks import Options, tell
from agentfw_memory import SkillGraph

WRITER = """
import sys
from agentfw_memory import GraphSettings, SkillGraph
path, name, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
# No cap, so that nothing is retired on purpose.
settings = GraphSettings(skills_per_owner=10**6)
graph = SkillGraph.open(path, tenant="team", embedder="hash:32", settings=settings)
for number in range(first, 10**9):
    skill = graph.add(owner=name, text=f"{name} knows {number}", tools=["calendar"], visibility="shared")
    print("added", number, skill.id, flush=True)
    if number % 3 == 0:
        graph.learn({"id": f"{name} {number}", "user": name, "query": "q", "skills": [skill.id]}, 0.9)
        print("learned", number, skill.id, flush=True)
    if number % 5 == 0:
        graph.update(skill.id, visibility="private")
        print("changed", number, skill.id, flush=True)
    if number % 4 == 0:
        graph.recall(f"knows {number}", user=name)
    if number % 30 == 0:
        graph.close()
        graph = SkillGraph.open(path, tenant="team", settings=settings)
"""


@dataclass
class Told:
    """What one writer was told, over all its lives."""

    added: dict[int, str] = field(default_factory=dict)
    learned: set[int] = field(default_factory=set)
    changed: set[int] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)
    renamed: int = 0
    """How often a text got another id than it had before."""

    def hear(self, told: str) -> None:
        for line in told.splitlines(keepends=True):
            if not line.endswith("\n"):
                continue  # it broke off: nobody was told
            what, number, skill = line.split()
            if what == "added":
                self.renamed += self.added.setdefault(int(number), skill) != skill
            else:
                (self.learned if what == "learned" else self.changed).add(int(number))

    @property
    def next(self) -> int:
        """Where the next life begins: a little before the last that was told."""
        return max(0, max(self.added, default=0) - 2)


class Life:
    """One process that writes until it is killed. It speaks into files, which outlive it."""

    def __init__(self, path: Path, name: str, first: int) -> None:
        self._out, self._complaints = path.with_name(f"{name}.out"), path.with_name(f"{name}.err")
        with self._out.open("w") as out, self._complaints.open("w") as complaints:
            words = [sys.executable, "-c", WRITER, str(path), name, str(first)]
            self._process = subprocess.Popen(words, stdout=out, stderr=complaints)

    def wait_until_it_writes(self) -> None:
        while not self._out.stat().st_size and self._process.poll() is None:
            time.sleep(0.01)

    def end(self, told: Told) -> None:
        self._process.kill()
        self._process.wait()
        told.hear(self._out.read_text("utf-8"))
        if complaints := self._complaints.read_text("utf-8"):
            told.complaints.append(complaints[-2000:])


def run(kills: int, writers: int, seed: int, path: Path) -> dict[str, Any]:
    generator = random.Random(seed)
    told = {f"writer{place}": Told() for place in range(writers)}
    alive = {name: Life(path, name, one.next) for name, one in told.items()}
    for _ in range(kills - writers):
        name = generator.choice(sorted(alive))
        if generator.random() > 0.2:
            alive[name].wait_until_it_writes()
        time.sleep(generator.uniform(0.0, 0.6))
        alive[name].end(told[name])
        alive[name] = Life(path, name, told[name].next)
    for name, life in alive.items():
        life.end(told[name])
    return {"kills": kills, "writers": writers, **check(path, told)}


def check(path: Path, told: dict[str, Told]) -> dict[str, Any]:
    """Compare what was told with what is there."""
    connection = sqlite3.connect(path)
    whole = connection.execute("PRAGMA integrity_check").fetchone()[0]
    now = "FROM version WHERE valid_to IS NULL"
    texts = dict(connection.execute(f"SELECT 's' || number, text {now}"))
    private = {skill for (skill,) in connection.execute(f"SELECT 's' || number {now} AND visibility = 'private'")}
    trips = Counter(name for (name,) in connection.execute("SELECT name FROM node WHERE kind = 'trajectory'"))
    uses = dict(connection.execute("SELECT 's' || number, uses FROM live"))
    runs = dict(
        connection.execute(
            "SELECT 's' || target, count(*) FROM edge WHERE kind = 'EXECUTED' AND valid_to IS NULL GROUP BY target"
        )
    )
    live = dict(connection.execute("SELECT number, vector FROM live"))
    connection.close()
    lost = sum(
        (texts.get(skill) != f"{name} knows {number}")
        for name, one in told.items()
        for number, skill in one.added.items()
    )
    lost += sum(f"{name} {number}" not in trips for name, one in told.items() for number in one.learned)
    lost += sum(one.added[number] not in private for one in told.values() for number in one.changed)
    twice = sum(count - 1 for count in Counter(texts.values()).values()) + sum(count - 1 for count in trips.values())
    twice += sum(uses[skill] != runs.get(skill, 0) for skill in uses)
    with SkillGraph.open(path, tenant="team") as graph:
        graph.recall("knows", user="writer0")
        view = graph._recaller.cache
        numbers = np.array(sorted(live), np.int64)
        stored = np.frombuffer(b"".join(live[number] for number in numbers.tolist()), "<f4").reshape(len(numbers), -1)
        same = len(view) == len(numbers) and np.array_equal(view.vectors(numbers), stored)
    complaints = [text for one in told.values() for text in one.complaints]
    return {
        "acknowledged": sum(len(one.added) + len(one.learned) + len(one.changed) for one in told.values()),
        "skills": len(texts),
        "lost": lost,
        "twice": twice + sum(one.renamed for one in told.values()),
        "complaints": len(complaints),
        '"database is locked"': sum("locked" in text for text in complaints),
        "the first complaint": complaints[0] if complaints else "",
        "file whole": whole == "ok",
        "index equals store": same,
    }


def show(result: dict[str, Any]) -> None:
    for name, value in result.items():
        print(f"{name:24}{value}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, kills=200, writers=8, seed=7).parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = run(options.kills, options.writers, options.seed, Path(folder) / "skills.db")
    return tell(result, options.json, show)


if __name__ == "__main__":
    main()
