"""Memories from elsewhere: mem0, LangMem and plain JSON become skills, and a broken record imports nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentfw_memory import BadInputError, NewSkill, SkillGraph, read_memories

MEM0 = {
    "results": [
        {
            "id": "8f3a",
            "memory": "Prefers green tea",
            "user_id": "ana",
            "created_at": "2024-05-07T10:00:00+00:00",
            "categories": ["drinks"],
        },
        {"id": "8f3b", "memory": "Answers in short sentences", "agent_id": "helper", "metadata": None},
        {
            "id": "8f3c",
            "memory": "Parks at P3",
            "user_id": "ana",
            "agent_id": "helper",
            "hash": "c0ffee",
            "metadata": {"source": "chat", "tags": ["car"]},
            "expiration_date": "2099-01-01",
        },
    ]
}
LANGMEM = [
    {
        "namespace": ["memories", "ana"],
        "key": "1",
        "value": {"kind": "Memory", "content": {"content": "Her dentist is called Keller"}},
        "created_at": "2024-05-07T10:00:00Z",
    },
    {"namespace": ["memories"], "key": "2", "value": {"size": 3}},
]
PLAIN = [
    {"text": "Never move lunch", "owner": "ben", "tools": ["calendar"], "scenarios": ["meetings"], "shared": True},
    {"text": "Mornings are best", "valid_from": 1_700_000_000},
]


def written(path: Path, value: Any, *, lines: bool) -> Path:
    path.write_text("\n".join(map(json.dumps, value)) + "\n" if lines else json.dumps(value), "utf-8")
    return path


def test_an_export_of_mem0_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "mem0.json", MEM0, lines=False)

    assert read_memories(path) == [
        NewSkill("ana", "Prefers green tea", (), ("drinks",), valid_from=1715076000.0, metadata={"id": "8f3a"}),
        NewSkill("helper", "Answers in short sentences", metadata={"id": "8f3b"}),
        NewSkill(
            "ana",
            "Parks at P3",
            metadata={"source": "chat", "tags": ["car"], "id": "8f3c", "agent_id": "helper"},
            expires_at=4070908800.0,
        ),
    ]


@pytest.mark.parametrize("lines", [False, True])
def test_items_of_langmem_are_read(tmp_path: Path, lines: bool) -> None:
    path = written(tmp_path / "items.json", LANGMEM, lines=lines)

    assert read_memories(path) == [
        NewSkill(
            "memories/ana",
            "Her dentist is called Keller",
            (),
            ("key 1",),
            valid_from=1715076000.0,
            metadata={"key": "1", "value": LANGMEM[0]["value"]},
        ),
        NewSkill("memories", '{"size": 3}', (), ("key 2",), metadata={"key": "2", "value": {"size": 3}}),
    ]


def test_plain_records_are_read_and_can_be_imported_twice(tmp_path: Path) -> None:
    path = written(tmp_path / "plain.jsonl", PLAIN, lines=True)

    with SkillGraph.open(":memory:", tenant="t", embedder="hash") as graph:
        graph.add_all(read_memories(path, owner="ana"))
        graph.add_all(read_memories(path, owner="ana"))

        (never,) = graph.skills(owner="ben")
        (mornings,) = graph.skills(owner="ana")
        assert (never.text, never.tools, never.scenarios, never.visibility) == (
            "Never move lunch",
            ("calendar",),
            ("meetings",),
            "shared",
        )
        assert mornings.valid_from == 1_700_000_000


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": "broken', "line 2 is not valid JSON"),
        ("[1, 2]", "line 2: a record is an object"),
        ('{"content": "x"}', "line 2: a record needs text"),
        ('{"text": "x"}', "line 2: it names no owner"),
        ('{"text": " ", "owner": "ana"}', "line 2: the text ' ' is not"),
        ('{"text": "x", "owner": "ana", "valid_from": "soon"}', "line 2: 'soon' is not a time"),
        ('{"text": "x", "owner": "ana", "tools": "calendar"}', "line 2: 'calendar' is not a list"),
    ],
)
def test_a_broken_record_is_named_and_nothing_is_imported(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "memories.jsonl"
    path.write_text('{"text": "fine", "owner": "ana"}\n' + line + "\n", "utf-8")

    with pytest.raises(BadInputError, match=problem.replace("[", r"\[")):
        read_memories(path)


def test_items_of_langmem_are_items_again_in_our_store(tmp_path: Path) -> None:
    pytest.importorskip("langgraph")
    from agentfw_memory.adapters.langgraph import SkillGraphStore

    path = written(tmp_path / "items.json", LANGMEM, lines=False)
    with SkillGraph.open(":memory:", tenant="t", embedder="hash") as graph:
        graph.add_all(read_memories(path))
        store = SkillGraphStore(graph)

        assert store.get(("memories", "ana"), "1").value == LANGMEM[0]["value"]
        store.put(("memories", "ana"), "1", {"content": "Her dentist is called Lang"})
        assert len(store.search(("memories", "ana"), query="dentist")) == 1


def test_metadata_that_is_no_object_imports_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "plain.json", [{"text": "a", "owner": "ana", "metadata": [1]}], lines=False)

    with pytest.raises(BadInputError, match="record 1: its metadata"):
        read_memories(path)
