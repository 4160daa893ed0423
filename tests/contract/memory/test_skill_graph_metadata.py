"""Metadata with filters, expiry, and the methods for an event loop, on every store."""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentfw_memory import AsyncSkillGraph, BadInputError, NewSkill, SkillGraph, UnknownSkillError

pytest.importorskip("igraph")

NOTE: dict[str, Any] = {
    "kind": "note",
    "tags": ["a", "b"],
    "from": {"year": 2024, "app.name": "x"},
    "done": True,
    "n": 3,
}


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "postgres"])
def graph(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Iterator[SkillGraph]:
    where: str | Path = tmp_path / "skills.db"
    if request.param == "postgres":
        database: Callable[[], str] = request.getfixturevalue("postgres_database")
        where = database()
    with SkillGraph.open(where, tenant="team", embedder="hash:32", clock=clock) as opened:
        yield opened


FILTERS: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"kind": "note"}, True),
    ({"kind": "mail"}, False),
    ({"kind": "note", "n": 4}, False),
    ({"tags": ["a", "b"]}, True),
    ({"tags": ["a"]}, False),
    ({"from.year": 2024}, True),
    ({"from": {"year": 2024, "app.name": "x"}}, True),
    ({"from.app.name": "x"}, True),
    ({"from.month": 1}, False),
    ({"kind.year": 2024}, False),
    ({"n": {"$gt": 2, "$lte": 3}}, True),
    ({"n": {"$lt": 3}}, False),
    ({"n": {"$gte": "2"}}, False),
    ({"n": {"$lt": math.inf}}, True),
    ({"n": {"$eq": math.nan}}, False),
    ({"kind": {"$in": ["mail", "note"]}}, True),
    ({"kind": {"$nin": ["mail", "note"]}}, False),
    ({"missing": {"$ne": 1}}, True),
    ({"missing": {"$gt": 1}}, False),
    ({"missing": {"$exists": False}}, True),
    ({"done": {"$exists": True}}, True),
    ({"done": 1}, False),
    ({"done": {"$ne": 1}}, True),
    ({"n": True}, False),
]


def test_a_filter_fits_by_its_fields(graph: SkillGraph) -> None:
    graph.add(owner="ana", text="green tea", metadata=NOTE)

    for wanted, fitting in FILTERS:
        assert [one.metadata for one in graph.skills(owner="ana", where=wanted)] == [NOTE] * fitting, wanted
        assert len(graph.recall("tea", user="ana", where=wanted)) == fitting, wanted


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("kind", "is not a dict"),
        ({"a') OR '1'='1": 1}, "Invalid filter key"),
        ({3: 1}, "Invalid filter key"),
        ({"n": {"$near": 1}}, "Unsupported operator: .near"),
        ({"n": {"$in": "abc"}}, "needs a list"),
    ],
)
def test_a_filter_that_cant_be_meant_is_refused(graph: SkillGraph, wanted: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        graph.skills(owner="ana", where=wanted)
    with pytest.raises(BadInputError, match=message):
        graph.recall("tea", user="ana", where=wanted)


def test_skills_are_listed_and_recalled_by_their_metadata(graph: SkillGraph, tmp_path: Path) -> None:
    for place in range(30):
        graph.add(owner="ana", text=f"tea {place}", metadata={"kind": "rare" if place % 10 == 7 else "common"})
    plain = graph.add(owner="ana", text="tea 7")
    rare = {"kind": "rare"}

    hits = graph.recall("tea", user="ana", k=2, where=rare)
    listed = graph.skills(owner="ana", where=rare)
    graph.update(listed[0].id, metadata=NOTE)

    assert [hit.skill.metadata for hit in hits] == [rare, rare]
    assert [skill.text for skill in listed] == ["tea 7", "tea 17", "tea 27"]
    assert (plain.metadata, plain.id in {skill.id for skill in listed}) == ({}, False)
    assert graph.get(listed[0].id).metadata == NOTE
    assert [version.metadata for version in graph.history(listed[0].id).versions] == [rare, NOTE]
    assert graph.recall("tea", user="ana", k=3, where={"kind": "none"}) == []
    assert graph.admin.export_jsonl(tmp_path / "out.jsonl")
    with SkillGraph.open(":memory:", tenant="team", embedder="hash:32") as copy:
        copy.admin.import_jsonl(tmp_path / "out.jsonl")
        assert copy.get(listed[0].id).metadata == NOTE
        assert copy.add(owner="ana", text="tea 17", metadata=rare).id == listed[1].id
        copy.admin.export_jsonl(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() != ""


def test_a_text_with_other_metadata_is_another_skill(graph: SkillGraph) -> None:
    first, again, other, plain = graph.add_all(
        NewSkill("ana", "yes", metadata=metadata) for metadata in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2}, {})
    )

    assert first.id == again.id
    assert len({first.id, other.id, plain.id}) == 3
    with pytest.raises(BadInputError, match="already has this text"):
        graph.update(other.id, metadata={"a": 1, "b": 2})


@pytest.mark.parametrize("metadata", ["text", [1], {1: 2}, {"a": math.nan}, {"a": object()}, {"a": "\x00"}])
def test_metadata_that_is_no_json_is_refused(metadata: Any) -> None:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash") as graph:
        if metadata == {"a": "\x00"}:
            # In JSON it is escaped, so it can be kept.
            assert graph.add(owner="ana", text="x", metadata=metadata).metadata == metadata
            return
        with pytest.raises(BadInputError, match="metadata"):
            graph.add(owner="ana", text="x", metadata=metadata)
        assert graph.skills(owner="ana") == []


def test_a_skill_ends_when_its_time_is_over(graph: SkillGraph, clock: Clock) -> None:
    short = graph.add(owner="ana", text="parking at P3", expires_at=1_060.0)
    long = graph.add(owner="ana", text="parking at home", expires_at=1_060.0)
    graph.update(long.id, expires_at=math.inf)
    assert len(graph.history(long.id).versions) == 1, "another time is no other version"

    clock.now = 1_059.0
    assert len(graph.recall("parking", user="ana")) == 2
    clock.now = 1_100.0

    assert [hit.skill.id for hit in graph.recall("parking", user="ana")] == [long.id]
    assert [skill.id for skill in graph.skills(owner="ana")] == [long.id]
    assert graph.get(long.id).expires_at is None
    assert graph.history(short.id).versions[0].valid_to == 1_060.0
    assert graph.admin.stats().nodes["skill"] == 1
    with pytest.raises(UnknownSkillError):
        graph.get(short.id)
    assert graph.add(owner="ana", text="parking at P3").id != short.id


def test_everything_can_be_called_in_an_event_loop(tmp_path: Path) -> None:
    async def talk() -> list[str]:
        opened = SkillGraph.open(tmp_path / "skills.db", tenant="team", embedder="hash")
        async with AsyncSkillGraph(opened) as graph:
            skill = await graph.add(owner="ana", text="ask first")
            await graph.update(skill.id, text="ask twice")
            told = [hit.skill.text for hit in await graph.recall("ask", user="ana")]
            await graph.retire(skill.id)
            return [*told, *(skill.text for skill in await graph.skills(owner="ana"))]

    def methods(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, inspect.isroutine) if name[0] != "_"}

    assert asyncio.run(talk()) == ["ask twice"]
    assert methods(AsyncSkillGraph) == methods(SkillGraph) - {"open", "tenants", "reembed"}
    assert len(methods(SkillGraph)) <= 25


def test_an_event_loop_goes_on_while_something_is_recalled() -> None:
    """The embedder waits for the loop. If recall blocked the loop, neither could go on."""
    loop_went_on = threading.Event()
    waiting = False

    def embed(texts: Any) -> Any:
        if waiting and not loop_went_on.wait(timeout=20):
            raise ValueError("the event loop was blocked")
        return [[1.0, float(len(text))] for text in texts]

    async def both(graph: SkillGraph) -> list[str]:
        recalling = asyncio.ensure_future(AsyncSkillGraph(graph).recall("tea", user="ana"))
        await asyncio.sleep(0.01)
        loop_went_on.set()
        return [hit.skill.text for hit in await recalling]

    with SkillGraph.open(":memory:", tenant="t", embedder=embed) as graph:
        graph.add(owner="ana", text="green tea")
        waiting = True

        assert asyncio.run(both(graph)) == ["green tea"]
