"""A skill that is erased leaves no word: not in the files, the index, the log, nor in an export."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentfw_memory import BadInputError, GraphSettings, NewSkill, SkillGraph, StoreBusyError, UnknownSkillError
from agentfw_memory.graph.stores import sqlite

pytest.importorskip("igraph")

READER = """
import sys
from agentfw_memory import SkillGraph
with SkillGraph.open(sys.argv[1], tenant="team") as graph:
    print(len(graph.recall("tea", user="ana")), flush=True)
    sys.stdin.readline()
    print([hit.skill.text for hit in graph.recall("tea", user="ana", k=9)], flush=True)
"""
TOLD = {"id": "t1", "user": "ana", "query": "inimitable tea?", "outcome": "I prefer inimitable tea."}


def everything(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[SkillGraph]:
    with SkillGraph.open(tmp_path / "skills.db", tenant="team", embedder="hash:32") as opened:
        opened.add_all([NewSkill("ana", f"plain tea {place}", visibility="shared") for place in range(20)])
        yield opened


@contextmanager
def another_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """One that has the graph loaded and open."""
    command = [sys.executable, "-c", READER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "5\n"
        yield process


def test_no_word_of_an_erased_skill_is_left_also_while_a_reader_is_open(graph: SkillGraph, tmp_path: Path) -> None:
    skill = graph.add(owner="ana", text="inimitable tea " * 200, tools=["inimitable pot"], scenarios=["meeting"])
    graph.prepare()
    graph.update(skill.id, text="plain again")
    assert b"inimit" in everything(tmp_path)

    with another_process(tmp_path / "skills.db") as reader:
        receipt = graph.delete(skill.id)
        left = everything(tmp_path)
        shown, _ = reader.communicate("go on\n")

    assert b"inimit" not in left
    assert "inimit" not in shown
    assert (receipt.skills, receipt.versions) == (1, 2)
    assert b"inimit" not in everything(tmp_path), "what the other process saved when it closed"
    graph.admin.export_jsonl(tmp_path / "out.jsonl")
    assert "inimit" not in (tmp_path / "out.jsonl").read_text()
    assert len(graph.skills(owner="ana")) == 20
    assert len(graph.recall("tea", user="ana", k=99)) == 20


def test_what_told_it_and_what_said_the_same_go_too(graph: SkillGraph, tmp_path: Path) -> None:
    first = graph.add(owner="ana", text="prefer inimitable tea")
    graph.retire(first.id)
    other = graph.add(owner="ana", text="Prefer inimitable tea!")
    graph.update(other.id, text="drink water")
    graph.learn({**TOLD, "id": "t0", "outcome": "The weather was fine.", "query": "weather"}, 0.9)
    (skill,) = (one for one in graph.learn(TOLD, 0.1).added if "tea" in graph.get(one).text)

    receipt = graph.delete(skill)

    assert b"inimit" not in everything(tmp_path)
    assert receipt.trajectories == 1
    assert graph.get(other.id).text == "drink water"
    assert graph.history(other.id).versions[0].text == "drink water"
    assert graph.learn(TOLD, 0.1).known_already, "the trajectory itself stays known"
    with pytest.raises(UnknownSkillError):
        graph.history(first.id)
    graph.update(other.id, text="drink juice")
    assert [one.text for one in graph.history(other.id).versions] == ["drink water", "drink juice"]


def test_one_past_version_is_erased_and_the_others_stay(graph: SkillGraph, tmp_path: Path) -> None:
    skill = graph.add(owner="ana", text="call ana at 5551")
    graph.update(skill.id, text="call ana at inimitable 5552")
    graph.update(skill.id, text="call ana at 5553")

    with pytest.raises(BadInputError, match="version 2 is what the skill says now"):
        graph.delete(skill.id, version=2)
    receipt = graph.delete(skill.id, version=1)

    assert (receipt.skills, receipt.versions) == (0, 1)
    assert b"inimit" not in everything(tmp_path)
    assert [(one.number, one.text) for one in graph.history(skill.id).versions] == [
        (0, "call ana at 5551"),
        (2, "call ana at 5553"),
    ]
    assert graph.delete(skill.id, version=1).versions == 0
    with pytest.raises(BadInputError, match="version 0 of 2 skills"):
        graph.delete(skill.id, "s1", version=0)


def test_a_shared_copy_goes_when_too_few_are_left_behind_it(tmp_path: Path) -> None:
    sharing = GraphSettings(share_after=3)
    with SkillGraph.open(tmp_path / "skills.db", tenant="team", embedder="hash", settings=sharing) as graph:
        mine: dict[str, str] = {}
        for user in ("ana", "ben", "cleo"):
            told = {"id": user, "user": user, "query": "tea", "outcome": "I prefer inimitable tea."}
            learned = graph.learn(told, 0.9)
            mine[user] = learned.added[0]
        assert learned.shared

        graph.delete(mine["ana"])
        assert graph.recall("tea", user="dora") == []
        graph.delete(mine["ben"], mine["cleo"])

        assert b"inimit" not in everything(tmp_path)


def test_others_and_nodes_with_the_same_number_are_left_alone(graph: SkillGraph) -> None:
    skill = graph.add(owner="ben", text="ask first", tools=["mail"]).id
    kept = graph.add(owner="ben", text="ask twice", tools=["mail"]).id
    before = graph.admin.stats()

    with pytest.raises(UnknownSkillError):
        graph.delete("not an id")
    for number in range(1, 40):
        if f"s{number}" not in {one.id for owner in ("ana", "ben") for one in graph.skills(owner=owner)}:
            assert graph.delete(f"s{number}").skills == 0
    assert graph.admin.stats().edges == before.edges
    assert graph.delete(skill).skills == 1
    assert graph.delete(skill).skills == 0
    assert graph.get(kept).tools == ("mail",)


def test_a_reader_that_still_sees_it_is_waited_for_and_then_named(
    graph: SkillGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skill = graph.add(owner="ana", text="inimitable tea")
    monkeypatch.setattr(sqlite, "LOCK_TIMEOUT", 0.2)
    graph._store._execute("PRAGMA busy_timeout = 100")  # type: ignore[attr-defined]
    reader = sqlite3.connect(tmp_path / "skills.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM version").fetchone()

    with pytest.raises(StoreBusyError, match="another process reads the state before"):
        graph.delete(skill.id)
    assert not [hit for hit in graph.recall("tea", user="ana", k=99) if hit.skill.id == skill.id]
    reader.close()
    graph.delete(skill.id)

    assert b"inimit" not in everything(tmp_path)
