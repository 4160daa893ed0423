"""`agentfw memory` on a store: what it prints, what it keeps, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from command_line import Agentfw, Answer

from agentfw_memory import SkillGraph

pytest.importorskip("igraph")

Memory = Callable[..., Answer]


TRAJECTORY = {
    "id": "t1",
    "user": "ana",
    "query": "move my meeting",
    "scenarios": ["rescheduling"],
    "steps": [{"action": "look", "tool": "calendar", "worked": True}],
    "outcome": "I prefer the earliest slot.",
    "reward": 0.9,
}


@pytest.fixture
def memory(agentfw: Agentfw) -> Memory:
    return partial(agentfw, "memory")


@pytest.fixture
def filled(memory: Memory) -> Memory:
    words = ("--embedder", "hash", "--tool", "calendar", "--scenario", "rescheduling")
    assert memory("add", "--owner", "ana", "Offer the earliest slot first", *words).code == 0
    assert memory("add", "--owner", "ben", "Never move lunch", "--shared").code == 0
    return memory


def test_what_was_added_is_recalled_with_its_reasons(filled: Memory) -> None:
    people = filled("recall", "--user", "ana", "which slot do I offer?")
    assert "Offer the earliest slot first" in people.out.splitlines()[0]
    assert "private, ana's; tools calendar; for rescheduling" in people.out
    table = filled("recall", "--user", "ana", "which slot do I offer?", "--why").out.splitlines()
    assert table[0].split()[:5] == ["skill", "text", "score", "words", "vectors"]
    assert "similar to the query" in table[1]
    assert len(table) == 3
    hits = filled("recall", "--user", "ana", "which slot do I offer?", "--json").json
    assert [hit["skill"]["text"] for hit in hits] == ["Offer the earliest slot first", "Never move lunch"]
    assert hits[0]["why"]["query"] > 0
    others = filled("recall", "--user", "ben", "which slot do I offer?", "--json").json
    assert [hit["skill"]["owner"] for hit in others] == ["ben"]
    assert len(filled("recall", "--user", "ana", "which slot do I offer?", "-k", "1", "--json").json) == 1


def test_trajectories_are_learned_once_and_a_bad_line_is_told_and_keeps_those_before(
    filled: Memory, tmp_path: Path
) -> None:
    path = tmp_path / "trajectories.jsonl"
    path.write_text(json.dumps(TRAJECTORY) + "\n\n" + json.dumps({**TRAJECTORY, "id": "t2", "reward": 0.1}) + "\n")
    first, second = filled("learn", str(path), "--json").json
    assert (len(first["added"]), second["added"]) == (1, [])
    assert all(one["known_already"] for one in filled("learn", str(path), "--json").json)
    assert "known already" in filled("learn", str(path)).out

    third = json.dumps({**TRAJECTORY, "id": "t3", "user": "dora"})
    path.write_bytes(f"{third}\nkäse\n".encode("latin-1"))
    answer = filled("learn", str(path))
    assert (answer.code, "line 2 is not UTF-8 text" in answer.err) == (2, True)
    assert len(filled("list", "--owner", "dora", "--json").json) == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[]", "line 1 is not a trajectory"),
        ('{"id": "t1"}', "line 1 has no reward"),
        (json.dumps({**TRAJECTORY, "reward": "much"}), "trajectory 1: the reward 'much' is not a finite number"),
        (json.dumps({**TRAJECTORY, "mood": "good"}), "trajectory 1: not a trajectory"),
    ],
)
def test_a_line_that_is_no_trajectory_is_told(memory: Memory, tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "wrong.jsonl").write_text(line + "\n")
    answer = memory("learn", "wrong.jsonl", "--embedder", "hash")
    assert (answer.code, words in answer.err, "fix:" in answer.err) == (2, True, True)


def test_a_graph_is_prepared_for_the_next_process(filled: Memory) -> None:
    prepared = filled("prepare", "--json")
    assert prepared.json["skills"] == filled("stats", "--json").json["nodes"]["skill"]
    assert len(prepared.json["communities"]) == 3
    assert "skills prepared, communities" in filled("prepare").out


def test_forgetting_wants_a_yes(filled: Memory) -> None:
    refused = filled("forget", "ana")
    assert (refused.code, refused.out) == (2, "")
    assert "agentfw memory forget ana --yes" in refused.err
    assert filled("forget", "ana", "--yes", "--json").json["skills"] == 1
    assert filled("recall", "--user", "ana", "slot", "--json").json[0]["skill"]["owner"] == "ben"
    assert "skills" in filled("forget", "ben", "--yes").out
    assert "no data of bem was found" in filled("forget", "bem", "--yes").err


def test_an_export_goes_into_another_store_and_comes_out_equal(filled: Memory, tmp_path: Path) -> None:
    assert "written to one.jsonl" in filled("export", "one.jsonl").out
    rows = filled("import", "one.jsonl", "--store", "other.db", "--tenant", "team", "--json").json["rows"]
    assert filled("export", "two.jsonl", "--store", "other.db", "--tenant", "team", "--json").json["rows"] == rows
    assert (tmp_path / "one.jsonl").read_text() == (tmp_path / "two.jsonl").read_text()
    assert "one.jsonl already exists and is not overwritten" in filled("export", "one.jsonl").told(2)
    again = filled("import", "one.jsonl", "--store", "other.db", "--tenant", "team")
    assert (again.code, "is not empty" in again.err) == (2, True)


def test_vectors_are_made_anew(filled: Memory) -> None:
    assert filled("reembed", "--embedder", "hash:32", "--json").json == {"embedder": "hash:32", "vectors": 2}
    assert filled("stats", "--json").json["dimensions"] == 32
    assert "0 vectors" in filled("reembed", "--embedder", "hash:32").out


READING = (
    ("stats",),
    ("recall", "--user", "ana", "hello"),
    ("forget", "ana", "--yes"),
    ("export", "out.jsonl"),
    ("reembed", "--embedder", "hash"),
)


def test_what_only_reads_makes_no_store_and_no_tenant(memory: Memory, tmp_path: Path) -> None:
    for words in READING:
        answer = memory(*words)
        assert (answer.code, "there is no store runs/memory.db" in answer.err) == (2, True)
    assert list(tmp_path.iterdir()) == []

    for tenant in ("agentfw", "team-b"):
        assert memory("add", "--owner", "ana", "One more", "--tenant", tenant, "--embedder", "hash").code == 0
    for words in READING:
        answer = memory(*words, "--tenant", "agentwf")
        assert (answer.code, 'there is no tenant "agentwf" in runs/memory.db' in answer.err) == (2, True)
        assert "pass --tenant agentfw; its tenants are agentfw, team-b" in answer.err
    assert SkillGraph.tenants(tmp_path / "runs" / "memory.db") == ["agentfw", "team-b"]


def test_memories_of_another_program_are_imported_or_none_of_them(filled: Memory, tmp_path: Path) -> None:
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps({"results": [{"memory": "Prefers green tea", "user_id": "ana", "format": "md"}]}))
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"text": "a", "owner": "ana"}\n{"text": "b"\n', "utf-8")

    done = filled("import", str(path))
    refused = filled("import", str(broken))

    assert (done.code, done.out.split()[:3]) == (0, ["1", "memory", "imported"])
    assert (refused.code, "line 2 is not valid JSON" in refused.err) == (2, True)
    hits = filled("recall", "--user", "ana", "tea", "--json").json
    assert hits[0]["skill"]["text"] == "Prefers green tea"
    assert "a" not in [hit["skill"]["text"] for hit in hits]


def test_a_skill_is_listed_changed_retired_and_deleted(filled: Memory, tmp_path: Path) -> None:
    def left(word: bytes) -> bool:
        return word in b"".join(file.read_bytes() for file in (tmp_path / "runs").iterdir())

    words = ("--metadata", '{"kind": "note", "year": 2024}', "--expires", "2099-01-31")
    note = filled("add", "--owner", "ana", "Inimitable tea", *words, "--json").json
    assert (note["metadata"], note["expires_at"]) == ({"kind": "note", "year": 2024}, 4073500800.0)

    where = ("--where", '{"year": {"$gte": 2020}}')
    assert filled("list", "--owner", "ana", *where).out.split()[0] == note["id"]
    for options, count in (((), 2), (where, 1), (("--scenario", "rescheduling"), 1)):
        assert len(filled("list", "--owner", "ana", *options, "--json").json) == count
    assert "no skill of cleo fits" in filled("list", "--owner", "cleo").err
    recalled = filled("recall", "--user", "ana", "tea", *where, "--json").json
    assert [hit["skill"]["id"] for hit in recalled] == [note["id"]]

    changes = ("Inimitable green tea", "--tool", "kettle", "--expires", "never")
    changed = filled("update", note["id"], *changes, "--json").json
    assert (changed["tools"], changed["expires_at"], changed["metadata"]) == (["kettle"], None, note["metadata"])
    told = filled("history", note["id"]).out.splitlines()
    assert [line.split()[-2:] for line in told[1:]] == [["Inimitable", "tea"], ["green", "tea"]]
    assert "retired" in filled("retire", note["id"]).out

    refused = filled("delete", note["id"])
    assert (refused.code, refused.out) == (2, "")
    assert f"agentfw memory delete {note['id']} --yes" in refused.err
    assert left(b"Inimitable")
    assert filled("delete", note["id"], "--version", "1", "--yes", "--json").json["versions"] == 1
    assert not left(b"green")
    assert filled("delete", note["id"], "--yes", "--json").json["versions"] == 1
    assert not left(b"Inimitable")
    assert "it may be deleted already" in filled("delete", note["id"], "--yes").err


def test_options_that_cant_be_meant_are_refused(filled: Memory, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database of anybody's\n" * 100)
    for words, message in (
        (("list", "--owner", "ana", "--where", "kind=note"), "is not JSON"),
        (("list", "--owner", "ana", "--where", '{"a": {"$near": 1}}'), "Unsupported operator"),
        (("add", "--owner", "ana", "tea", "--expires", "soon"), "is not a time"),
        (("update", "s99", "tea"), 'unknown skill "s99"'),
        (("recall", "--user", "ana", " "), "the query is empty"),
        (("stats", "--store", "notes.txt"), "not a file of skill graphs"),
    ):
        answer = filled(*words)
        assert (answer.code, answer.out) == (2, "")
        assert message in " ".join(answer.err.split())


@pytest.mark.parametrize("folder", [".", "taken"])
def test_an_export_needs_the_path_of_a_file(filled: Memory, tmp_path: Path, folder: str) -> None:
    (tmp_path / "taken").mkdir()

    answer = filled("export", str(tmp_path / folder) if folder != "." else folder)

    assert (answer.code, "Is a directory" in answer.err) == (2, True)
