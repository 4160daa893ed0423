"""What opening a graph and its first recall cost, with the word index saved, not saved, and without words at all.

    python benchmarks/skill_graph_open.py
    python benchmarks/skill_graph_open.py --skills 2000 --repeats 2 --json

The graph is prepared, so the vectors' index and the communities are saved in all three cases. Each measurement is a
process of its own. The ways take turns. Times are of CPU, after the imports and after the embedder was loaded.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, median_of, shown, tell
from agentfw_benchmarks.skill_texts import EMBEDDER, Texts, fill
from agentfw_memory import SkillGraph

WAYS = ("saved", "not saved", "without words")
READER = """
import sys, time
import faiss
from agentfw_memory import GraphSettings, SkillGraph
from agentfw_memory.graph.index.embedders import open_embedder
path, query, user, similarity = sys.argv[1:]
embedder = open_embedder({embedder!r})
embedder.embed([query])
began = time.process_time()
graph = SkillGraph.open(path, tenant="team", embedder=embedder, settings=GraphSettings(query_similarity=similarity))
graph.recall(query, user=user)
print(time.process_time() - began)
""".replace("{embedder!r}", repr(EMBEDDER))
"""Opens the graph, recalls once, and ends without saving anything."""


def measure(skills: int, repeats: int, seed: int, folder: Path) -> dict[str, Any]:
    texts, path = Texts(seed), folder / "skills.db"
    with SkillGraph.open(path, tenant="team", embedder=EMBEDDER) as graph:
        fill(graph, texts, skills)
        graph.prepare()
    connection = sqlite3.connect(path, isolation_level=None)
    words = connection.execute("SELECT sum(length(value)) FROM state WHERE name LIKE 'words%'").fetchone()[0]
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way in WAYS:
            if way == "saved":
                connection.execute("UPDATE state SET name = substr(name, 5) WHERE name LIKE 'not words%'")
            else:
                connection.execute("UPDATE state SET name = 'not ' || name WHERE name LIKE 'words%'")
            similarity = "vectors" if way == "without words" else "hybrid"
            command = [sys.executable, "-c", READER, str(path), texts.text(), "user0", similarity]
            seconds[way].append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    connection.close()
    saved, without = seconds["saved"], seconds["without words"]
    return {
        "skills": skills,
        "MB of the file": path.stat().st_size / 1e6,
        "MB of the saved words": words / 1e6,
        "seconds": {way: median_of(values) for way, values in seconds.items()},
        "seconds for the saved words": median_of([one - other for one, other in zip(saved, without, strict=True)]),
    }


def show(result: dict[str, Any]) -> None:
    megabytes = f"{result['MB of the saved words']:.1f} of {result['MB of the file']:.0f} MB"
    print(f"{result['skills']:,} skills, the saved words are {megabytes}; seconds of CPU to open and recall once")
    for way in WAYS:
        print(f"  {way:16}{shown(result['seconds'][way], '.2f')}")
    print(f"the saved words cost {shown(result['seconds for the saved words'], '.2f')}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, skills=100_000, repeats=7, seed=7).parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(options.skills, options.repeats, options.seed, Path(folder))
    return tell(result, options.json, show)


if __name__ == "__main__":
    main()
