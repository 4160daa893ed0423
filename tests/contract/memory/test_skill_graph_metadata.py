"""Metadata with filters, expiry, and the methods for an event loop, on every store."""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agentfw_memory import AsyncSkillGraph, BadInputError, GraphSettings, NewSkill, SkillGraph, UnknownSkillError

OpenGraph = Callable[..., SkillGraph]
FROM = {"year": 2024, "app.name": "x"}
NOTE: dict[str, Any] = {"kind": "note", "tags": ["a", "b"], "from": FROM, "done": True, "n": 3}


@pytest.fixture
def now() -> list[float]:
    """The time that the clock of the graph shows."""
    return [1_000.0]


@pytest.fixture
def graph(where: str, open_graph: OpenGraph, now: list[float]) -> SkillGraph:
    return open_graph(where, clock=lambda: now[0])


FILTERS: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"kind": "note"}, True),
    ({"tags": ["a", "b"]}, True),
    ({"from.year": 2024}, True),
    ({"from.app.name": "x"}, True),
    ({"from.month": 1}, False),
    ({"kind.year": 2024}, False),
    ({"n": {"$gt": 2, "$lte": 3}}, True),
    ({"n": {"$gte": "2"}}, False),
    ({"n": {"$lt": math.inf}}, True),
    ({"n": {"$eq": math.nan}}, False),
    ({"kind": {"$in": ["mail", "note"]}}, True),
    ({"kind": {"$nin": ["mail", "note"]}}, False),
    ({"missing": {"$ne": 1}}, True),
    ({"missing": {"$exists": False}}, True),
    ({"done": 1}, False),
    ({"done": {"$ne": 1}}, True),
]


def test_a_filter_fits_by_its_fields(graph: SkillGraph) -> None:
    graph.add(owner="ana", text="green tea", metadata=NOTE)

    for wanted, fitting in FILTERS:
        assert [one.metadata for one in graph.skills(owner="ana", where=wanted)] == [NOTE] * fitting, wanted
        for when in (None, 1_000.0):
            assert len(graph.recall("tea", user="ana", where=wanted, as_of=when)) == fitting, wanted


def test_a_filter_that_cant_be_meant_is_refused(graph: SkillGraph) -> None:
    refused: list[tuple[Any, str]] = [
        ("kind", "is not a dict"),
        ({"a') OR '1'='1": 1}, "Invalid filter key"),
        ({3: 1}, "Invalid filter key"),
        ({"n": {"$near": 1}}, "Unsupported operator: .near"),
        ({"n": {"$in": "abc"}}, "needs a list"),
    ]
    for wanted, message in refused:
        with pytest.raises(BadInputError, match=message):
            graph.skills(owner="ana", where=wanted)
        with pytest.raises(BadInputError, match=message):
            graph.recall("tea", user="ana", where=wanted)


def test_a_filter_shows_just_what_fits(way_of_searching: tuple[str, GraphSettings], open_graph: OpenGraph) -> None:
    where, settings = way_of_searching
    graph = open_graph(where, settings=settings)
    common = (NewSkill("ana", f"green tea {n}", visibility="shared", metadata={"n": n}) for n in range(60))
    milk = [f"some tea with milk {place}" for place in range(3)]
    rare = (NewSkill("ana", text, visibility="shared", metadata={"n": -1}) for text in milk)
    graph.add_all([*common, *rare, NewSkill("ana", "secret tea", metadata={"n": -1})])

    def found(user: str, wanted: dict[str, Any], k: int = 3) -> list[str]:
        return sorted(hit.skill.text for hit in graph.recall("green tea", user=user, k=k, at_least=0.0, where=wanted))

    assert found("ben", {"n": -1}) == found("ben", {"n": {"$lt": 0}}, k=9) == milk
    assert "secret tea" in found("ana", {"n": -1}, k=9)
    assert len(found("ben", {"n": {"$gte": 30}}, k=40)) == 30
    assert found("ben", {"n": -2}) == []

    odd = {"n": -3, "raw": "\x00 \ud800 \\u0000 \N{TEACUP WITHOUT HANDLE}"}
    graph.add(owner="ana", text="odd tea", visibility="shared", metadata=odd)
    graph.prepare()
    assert found("ben", {"raw": odd["raw"]}) == found("ben", {"n": -3}) == ["odd tea"], "not all that JSON may hold"


def test_what_is_named_is_looked_for_among_what_fits(
    way_of_searching: tuple[str, GraphSettings], open_graph: OpenGraph
) -> None:
    where, settings = way_of_searching
    named: dict[str, dict[str, Any]] = {"by its scenario": {"scenario": "teas"}, "by its tool": {"tools": ["kettle"]}}
    nearer = [NewSkill("ana", f"green tea {place}", ("kettle",), ("teas",)) for place in range(12)]
    others = [NewSkill("ana", f"green tea {place}", metadata={"n": 1}) for place in range(12, 24)]
    for way in ("hybrid", "words"):
        graph = open_graph(where, way, settings=replace(settings, context_weight=1.0, query_similarity=way))
        graph.add_all(replace(one, visibility="shared") for one in (*nearer, *others))
        graph.add_all(NewSkill("cem", f"my green tea {place}", ("kettle",), ("teas",)) for place in range(12))
        wanted = NewSkill("ana", "boil water", ("kettle",), ("teas",), "shared", metadata={"n": 1})
        graph.add_all([wanted])
        for what, options in named.items():
            for user in ("ana", "a stranger"):
                hits = graph.recall("green tea", user=user, where={"n": 1}, **options)
                assert hits[0].skill.text == "boil water", (what, user, way)
        assert len(graph.recall("green tea", user="a stranger", k=20, at_least=0.0, **named["by its scenario"])) == 20


def test_skills_are_listed_and_versions_kept_with_their_metadata(graph: SkillGraph) -> None:
    for place in range(10):
        graph.add(owner="ana", text=f"tea {place}", metadata={"kind": "rare" if place % 4 == 1 else "common"})
    rare = {"kind": "rare"}

    def recalled() -> list[str]:
        return sorted(hit.skill.text for hit in graph.recall("tea", user="ana", k=20, where=rare))

    listed = graph.skills(owner="ana", where=rare)
    assert recalled() == [skill.text for skill in listed] == ["tea 1", "tea 5", "tea 9"]
    graph.update(listed[0].id, metadata=NOTE)
    graph.update(listed[1].id, metadata={})
    graph.add_all(NewSkill("ana", f"tea {place}", metadata=rare) for place in range(10, 40, 10))

    assert recalled() == ["tea 10", "tea 20", "tea 30", "tea 9"]
    assert [version.metadata for version in graph.history(listed[0].id).versions] == [rare, NOTE]


def test_a_text_with_other_metadata_is_another_skill(graph: SkillGraph) -> None:
    first, again, other, plain = graph.add_all(
        NewSkill("ana", "yes", metadata=metadata) for metadata in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2}, {})
    )

    assert first.id == again.id
    assert len({first.id, other.id, plain.id}) == 3
    with pytest.raises(BadInputError, match="already has this text"):
        graph.update(other.id, metadata={"a": 1, "b": 2})


@pytest.mark.parametrize("metadata", ["text", [1], {1: 2}, {"a": math.nan}, {"a": object()}])
def test_metadata_that_is_no_json_is_refused(open_graph: OpenGraph, metadata: Any) -> None:
    graph = open_graph(":memory:")
    with pytest.raises(BadInputError, match="metadata"):
        graph.add(owner="ana", text="x", metadata=metadata)
    assert graph.skills(owner="ana") == []


def test_a_skill_ends_when_its_time_is_over(graph: SkillGraph, now: list[float]) -> None:
    short = graph.add(owner="ana", text="parking at P3", expires_at=1_060.0)
    long = graph.add(owner="ana", text="parking at home", expires_at=1_060.0)
    graph.add(owner="ana", text="parking until just now", expires_at=1_100.0)
    graph.update(long.id, expires_at=math.inf)
    assert len(graph.history(long.id).versions) == 1, "another time is no other version"

    now[0] = 1_059.0
    assert len(graph.recall("parking", user="ana")) == 3
    now[0] = 1_100.0

    assert [hit.skill.id for hit in graph.recall("parking", user="ana")] == [long.id]
    assert [skill.id for skill in graph.skills(owner="ana")] == [long.id]
    assert graph.get(long.id).expires_at is None
    assert graph.history(short.id).versions[0].valid_to == 1_060.0
    assert graph.admin.stats().nodes["skill"] == 1
    with pytest.raises(UnknownSkillError):
        graph.get(short.id)
    assert graph.add(owner="ana", text="parking at P3").id != short.id


def test_everything_can_be_called_in_an_event_loop(open_graph: OpenGraph) -> None:
    async def talk() -> list[str]:
        async with AsyncSkillGraph(open_graph(":memory:")) as graph:
            skill = await graph.add(owner="ana", text="ask first")
            await graph.update(skill.id, text="ask twice")
            told = [hit.skill.text for hit in await graph.recall("ask", user="ana")]
            await graph.retire(skill.id)
            return [*told, *(skill.text for skill in await graph.skills(owner="ana"))]

    def methods(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, inspect.isroutine) if name[0] != "_"}

    assert asyncio.run(talk()) == ["ask twice"]
    assert methods(AsyncSkillGraph) == methods(SkillGraph) - {"open", "tenants", "reembed"}


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
