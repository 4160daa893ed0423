"""What is kept stays as it was told: after a restart, in another process, in an export, and with a filter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentfw_memory import GraphSettings, NewSkill, SkillGraph, Trajectory

OpenGraph = Callable[..., SkillGraph]
RowsOf = Callable[[SkillGraph], list[dict[str, Any]]]
QUERIES = ("green tea", "where do I live?", "coffee", "lamp")


class Clock:
    """A minute later at each look."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        self.now += 60.0
        return self.now


def fill(graph: SkillGraph) -> dict[str, str]:
    graph.add_all(
        [
            NewSkill(
                "ana", "serve green tea", ("kettle",), ("breakfast",), valid_from=1_000.0, metadata={"kind": "rule"}
            ),
            NewSkill("ana", "black coffee", visibility="shared", expires_at=4e9),
            NewSkill("ben", "switch on the lamp", (), ("evening",), "shared", valid_from=2_000.0),
        ]
    )
    home = graph.add(owner="ana", text="I live in Berlin", valid_from=1_000.0)
    graph.update(home.id, text="I live in Hamburg", valid_from=2_000.0)
    ids = {one.text: one.id for owner in ("ana", "ben") for one in graph.skills(owner=owner)}
    graph.update(ids["serve green tea"], text="serve green tea with honey", valid_from=3_000.0)
    graph.retire(graph.add(owner="ben", text="buy candles").id)
    graph.set_profile("ben", "likes lamps")
    used = ids["black coffee"], ids["switch on the lamp"]
    graph.learn(Trajectory("t1", "ben", "coffee", ("evening",), skills=used, shown=used), 0.9)
    return ids


def seen(graph: SkillGraph) -> list[Any]:
    """All that a caller can ask for: skills, histories, recalls now and as of earlier, with their reasons."""
    skills = [one for owner in ("ana", "ben") for one in graph.skills(owner=owner)]
    asked: list[dict[str, Any]] = [{}, {"as_of": 1_500.0}, {"as_of": 2_500.0}, {"where": {"kind": "rule"}}]
    return [
        skills,
        [graph.history(one.id) for one in skills],
        [
            (user, hit.skill, round(hit.score, 5), hit.why.path)
            for user in ("ana", "ben", "cleo")
            for query in QUERIES
            for options in asked
            for hit in graph.recall(query, user=user, k=9, **options)
        ],
        graph.admin.owners(),
        graph.admin.stats().nodes,
        graph.admin.stats().edges,
    ]


def test_a_restart_finds_the_same(where: str, open_graph: OpenGraph, rows_of: RowsOf) -> None:
    with SkillGraph.open(where, tenant="team", embedder="hash:64", clock=Clock()) as graph:
        fill(graph)
        before, rows = seen(graph), rows_of(graph)
        graph.prepare()

    again = open_graph(where, embedder="")

    assert seen(again) == before
    assert rows_of(again) == rows


def test_an_export_keeps_owners_dates_and_history_from_store_to_store(
    tmp_path: Path, postgres_database: Callable[[str], str], open_graph: OpenGraph, rows_of: RowsOf
) -> None:
    first = open_graph(tmp_path / "skills.db", extractor=lambda trajectory, maximum: [], clock=Clock())
    fill(first)
    before, rows = seen(first), rows_of(first)
    on_server = open_graph(postgres_database("middle"))
    back = open_graph(tmp_path / "back.db", tenant="another")

    for source, target in ((first, on_server), (on_server, back)):
        source.admin.export_jsonl(tmp_path / "moved.jsonl")
        target.admin.import_jsonl(tmp_path / "moved.jsonl")
        assert rows_of(target) == rows
        assert seen(target) == before
    assert back.add(owner="ana", text="black coffee").id == first.add(owner="ana", text="black coffee").id
    assert back.add(owner="ana", text="new").id == first.add(owner="ana", text="new").id, "ids go on"


def test_a_newer_version_ends_the_older_one_when_it_begins(where: str, open_graph: OpenGraph) -> None:
    graph = open_graph(where, clock=Clock())
    ids = fill(graph)
    home, tea = ids["I live in Hamburg"], ids["serve green tea"]

    told = {
        name: [(one.text, one.valid_from, one.valid_to) for one in graph.history(name).versions] for name in (home, tea)
    }

    assert told[home] == [("I live in Berlin", 1_000.0, 2_000.0), ("I live in Hamburg", 2_000.0, None)]
    assert told[tea] == [("serve green tea", 1_000.0, 3_000.0), ("serve green tea with honey", 3_000.0, None)]
    for when, place, dates in ((1_500.0, "Berlin", (1_000.0, 2_000.0)), (2_500.0, "Hamburg", (2_000.0, None))):
        best = graph.recall("where do I live?", user="ana", as_of=when)[0].skill
        assert (best.id, best.text) == (home, f"I live in {place}")
        assert (best.valid_from, best.valid_to) == dates
    assert all(home != hit.skill.id for hit in graph.recall("where do I live?", user="ana", as_of=500.0))
    assert graph.get(home).valid_from == 2_000.0


def test_a_filter_leaves_room_for_what_fits_and_shows_nothing_else(
    way_of_searching: tuple[str, GraphSettings], open_graph: OpenGraph
) -> None:
    where, settings = way_of_searching
    graph = open_graph(where, settings=settings)
    graph.add_all(
        NewSkill("ana", f"green tea {place}", visibility="shared", metadata={"n": place}) for place in range(60)
    )
    rare = [
        NewSkill("ana", f"some tea with milk {place}", visibility="shared", metadata={"n": -1}) for place in range(3)
    ]
    graph.add_all([*rare, NewSkill("ana", "secret tea", metadata={"n": -1})])

    def found(user: str, wanted: dict[str, Any], k: int = 3) -> list[str]:
        return sorted(hit.skill.text for hit in graph.recall("green tea", user=user, k=k, at_least=0.0, where=wanted))

    assert found("ben", {"n": -1}) == [f"some tea with milk {place}" for place in range(3)]
    assert "secret tea" in found("ana", {"n": -1}, k=9)
    assert found("ben", {"n": {"$lt": 0}}, k=9) == found("ben", {"n": -1})
    assert len(found("ben", {"n": {"$gte": 30}}, k=40)) == 30
    assert found("ben", {"n": -2}) == []
