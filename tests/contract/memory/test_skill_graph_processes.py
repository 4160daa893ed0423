"""Several processes on one file, some of them killed: nothing acknowledged is lost, and nothing is there twice."""

from __future__ import annotations

import random
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentfw_memory import SkillGraph

pytest.importorskip("igraph")

WRITER = """
import sys
from agentfw_memory import SkillGraph
path, name, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with SkillGraph.open(path, tenant="team", embedder="hash:16") as graph:
    for number in range(first, first + count):
        skill = graph.add(owner=name, text=f"{name} knows {number}", tools=["calendar"], visibility="shared")
        print(number, skill.id, flush=True)
        if number % 5 == 0:
            graph.learn({"id": f"{name} {number}", "user": name, "query": "q", "skills": [skill.id]}, 0.9)
        if number % 7 == 0:
            graph.recall(f"knows {number}", user=name)
"""


def start(path: Path, name: str, first: int, count: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, str(path), name, str(first), str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lines(told: str) -> Iterator[tuple[int, str]]:
    """What was acknowledged; a line that broke off wasn't."""
    for line in told.splitlines(keepends=True):
        if line.endswith("\n"):
            number, skill = line.split()
            yield int(number), skill


@pytest.mark.slow
def test_processes_that_write_at_once_and_are_killed_lose_nothing(tmp_path: Path) -> None:
    path, generator = tmp_path / "skills.db", random.Random(7)
    acknowledged: dict[tuple[str, int], str] = {}
    names = ["ana", "ben", "cleo"]
    for turn in range(2):
        writers = {name: start(path, name, turn * 10, 1000) for name in names}
        for writer in writers.values():
            assert writer.stdout is not None
            select.select([writer.stdout], [], [], 300)  # until it has told something, however busy the machine is
        time.sleep(generator.random())
        for name, writer in writers.items():
            time.sleep(generator.random() / 5)
            writer.kill()
            told, complaints = writer.communicate()
            assert "locked" not in complaints
            for number, skill in lines(told):
                # The same text again is the same skill, whether it was acknowledged before or not.
                assert acknowledged.setdefault((name, number), skill) == skill
    assert acknowledged
    with SkillGraph.open(path, tenant="team") as graph:
        assert all(graph.get(skill).text == f"{name} knows {n}" for (name, n), skill in acknowledged.items())
        kept = [skill for name in names for skill in graph.skills(owner=name)]
        assert len({skill.text for skill in kept}) == len(kept)
        found = {hit.skill.id for hit in graph.recall("knows", user="ana", k=len(kept), at_least=0)}
        assert found == {skill.id for skill in kept}


ELSEWHERE = """
import sys
from agentfw_memory import SkillGraph
with SkillGraph.open(sys.argv[1], tenant="t", embedder="hash") as graph:
    graph.add(owner="ben", text=sys.argv[2])
    print(graph.admin.stats().nodes["skill"])
"""


def skills_after_adding_elsewhere(path: Path, text: str) -> int:
    return int(subprocess.run([sys.executable, "-c", ELSEWHERE, path, text], check=True, stdout=subprocess.PIPE).stdout)


@pytest.mark.nightly
def test_what_is_added_is_on_disk_although_the_file_is_opened_twice_here(tmp_path: Path) -> None:
    """Another process that closes it would remove what SQLite writes to, if this one had lost its locks."""
    path = tmp_path / "graph.db"
    with (
        SkillGraph.open(path, tenant="t", embedder="hash") as first,
        SkillGraph.open(path, tenant="t", embedder="hash"),
    ):
        first.add(owner="ana", text="Likes tea")
        assert skills_after_adding_elsewhere(path, "Travels by train") == 2
        first.add(owner="ana", text="Lives in Berlin")
        assert skills_after_adding_elsewhere(path, "Gets up at six") == 4
