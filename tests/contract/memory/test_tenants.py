"""Tenants of one store share nothing, and a private skill is its owner's alone, however one asks.

Skills of tenants have the same ids. Whatever is done in one tenant, the rows of the other are the same afterwards, and
so is what it recalls. Users ask by recall, with a filter and as of a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agentfw_memory import GraphSettings, NewSkill, Said, SkillGraph, Trajectory, UnknownSkillError

OpenGraph = Callable[..., SkillGraph]
RowsOf = Callable[[SkillGraph], list[dict[str, Any]]]
QUERIES = ("green tea", "black coffee", "lamp")


def fill(graph: SkillGraph) -> None:
    """The same rows in every tenant: two users, edges of all kinds, a past version, uses, ratings, an expiry."""
    graph.add_all(
        [
            NewSkill("ana", "serve green tea", ("kettle",), ("breakfast",)),
            NewSkill("ana", "serve black coffee", ("kettle",), ("breakfast",), "shared"),
            NewSkill("ben", "serve green tea", ("pot",), ("breakfast",), "shared", expires_at=4e9),
            NewSkill("ben", "switch on the lamp", (), ("evening",)),
        ]
    )
    first, second, third, fourth = (one.id for owner in ("ana", "ben") for one in graph.skills(owner=owner))
    graph.update(fourth, text="switch off the lamp")
    graph.connect(first, "COMPLEMENTS", second)
    graph.connect(second, "CONFLICTS", third)
    graph.set_profile("ana", "likes tea")
    for user, skills in (("ana", (first, second)), ("ben", (second, third))):
        told = Trajectory(f"trip of {user}", user, "serve green tea", ("breakfast",), skills=skills, shown=skills)
        graph.learn(told, 0.8)


def add_and_save(graph: SkillGraph, skills: list[str]) -> None:
    graph.add(owner="ana", text="zebra")
    graph.prepare()


CHANGES: dict[str, Callable[[SkillGraph, list[str]], object]] = {
    "a use": lambda graph, skills: graph.learn(Trajectory("new", "ana", "tea", skills=tuple(skills)), 0.3),
    "a rating": lambda graph, skills: graph.learn(Trajectory("rated", "ana", "green tea", shown=tuple(skills)), -1.0),
    "another weight": lambda graph, skills: graph.connect(skills[0], "COMPLEMENTS", skills[1], weight=7.0),
    "an end of an edge": lambda graph, skills: graph.disconnect(skills[0], "COMPLEMENTS", skills[1]),
    "other tools": lambda graph, skills: graph.update(skills[0], tools=["cup"], scenarios=[]),
    "an update": lambda graph, skills: graph.update(skills[0], text="serve red juice", visibility="shared"),
    "an expiry": lambda graph, skills: [graph.update(one, expires_at=3e9) for one in skills],
    "a profile": lambda graph, skills: graph.set_profile("ana", "likes lamps"),
    "saved caches": add_and_save,
    "an erased version": lambda graph, skills: graph.delete(skills[3], version=0),
    "an erasure": lambda graph, skills: graph.delete(skills[2]),
    "a retirement": lambda graph, skills: list(map(graph.retire, skills[:2])),
    "a forgotten user": lambda graph, skills: graph.forget("ana"),
}
"""What is done in one tenant, one after the other: each changes its rows."""


def recalled(graph: SkillGraph) -> list[tuple[str, str, float]]:
    return [
        (user, hit.skill.text, round(hit.score, 5))
        for user in ("ana", "ben")
        for query in QUERIES
        for hit in graph.recall(query, user=user, k=9, at_least=0.0)
    ]


def test_a_change_in_one_tenant_is_none_in_another(where: str, open_graph: OpenGraph, rows_of: RowsOf) -> None:
    ours, theirs = (open_graph(where, tenant) for tenant in ("ours", "theirs"))
    fill(ours)
    fill(theirs)
    skills = [one.id for owner in ("ana", "ben") for one in ours.skills(owner=owner)]
    assert skills == [one.id for owner in ("ana", "ben") for one in theirs.skills(owner=owner)]
    before, found = rows_of(theirs), recalled(theirs)

    for name, change in CHANGES.items():
        own = rows_of(ours)
        change(ours, skills)
        assert rows_of(ours) != own, name
        assert rows_of(theirs) == before, name
        assert recalled(theirs) == found, name

    assert recalled(open_graph(where, "theirs")) == found, "opened again"


def test_what_one_tenant_saves_for_the_next_process_is_read_by_it_alone(where: str, open_graph: OpenGraph) -> None:
    words = GraphSettings(query_similarity="words")
    for tenant, thing in (("ours", "kettle"), ("theirs", "lantern")):
        with SkillGraph.open(where, tenant=tenant, embedder="hash:64", settings=words) as graph:
            graph.add_all(NewSkill("ana", f"{thing} number {place}") for place in range(30))
            graph.prepare()

    theirs = open_graph(where, "theirs", settings=words)

    assert len(theirs.recall("lantern", user="ana", k=5)) == 5
    assert theirs.recall("kettle", user="ana", k=5) == []


def test_a_small_tenant_is_answered_in_full(way_of_searching: tuple[str, GraphSettings], open_graph: OpenGraph) -> None:
    where, settings = way_of_searching
    huge, small = (open_graph(where, tenant, settings=settings) for tenant in ("huge", "small"))
    huge.add_all(NewSkill("ana", f"green tea {place}", visibility="shared") for place in range(300))
    small.add_all(NewSkill("ana", f"some tea with milk and sugar {place}", visibility="shared") for place in range(6))
    small.prepare()

    for user in ("ana", "ben"):
        hits = small.recall("green tea", user=user, k=5)
        assert [hit.skill.text.split()[0] for hit in hits] == ["some"] * 5
    assert len(small.skills(owner="ana")) == 6
    assert small.admin.owners() == ["ana"]


def test_what_isnt_in_a_tenant_cant_be_named_in_it(where: str, open_graph: OpenGraph) -> None:
    ours, theirs = open_graph(where, "ours"), open_graph(where, "theirs")
    skill = ours.add(owner="ana", text="serve green tea", visibility="shared").id

    for call in (theirs.get, theirs.history, theirs.retire, lambda one: theirs.update(one, text="x")):
        with pytest.raises(UnknownSkillError):
            call(skill)
    assert theirs.delete(skill).skills == 0
    assert theirs.forget("ana").skills == 0
    learned = theirs.learn(Trajectory("t", "ana", "tea", skills=(skill,), shown=(skill,)), 0.9)
    assert theirs.admin.stats().edges == {}
    assert learned.added == ()
    assert ours.get(skill).uses == 0


def test_one_tenant_is_embedded_again_and_no_other(where: str, open_graph: OpenGraph, rows_of: RowsOf) -> None:
    with SkillGraph.open(where, tenant="ours", embedder="hash:64") as ours:
        fill(ours)
    theirs = open_graph(where, "theirs")
    fill(theirs)
    before, found = rows_of(theirs), recalled(theirs)

    assert SkillGraph.reembed(where, tenant="ours", embedder="hash:32") == 5

    assert rows_of(theirs) == before
    assert recalled(theirs) == found
    assert theirs.admin.stats().dimensions == 64
    assert open_graph(where, "ours", embedder="").admin.stats().dimensions == 32


# Users of one tenant

ASKED = (
    "ask before moving a dinner",
    "where does ana live?",
    "where do I live?",
    "how should I answer ana?",
    "serve tea at dinner",
)


class Always:
    """A writer for which everything matters to every answer."""

    async def write(self, sayings: Sequence[Said]) -> Sequence[object]:
        return [
            [{"action": "ADD", "text": one, "evidence": one, "always": True} for one in said.own] for said in sayings
        ]


def keep_and_share(graph: SkillGraph) -> None:
    """What ana keeps to herself is connected with what ben shares, in every way that a recall follows."""
    graph.add_all(
        [
            NewSkill("ana", "ask before moving a dinner", ("calendar",), ("dinner",), metadata={"kind": "rule"}),
            NewSkill("ana", "I live in Berlin", valid_from=1_700_000_000),
            NewSkill("ben", "serve tea at dinner", ("kettle",), ("dinner",), "shared", metadata={"kind": "rule"}),
            NewSkill("ben", "plain words", visibility="shared"),
        ]
    )
    graph.hear("Please always answer in German", user="ana")
    ids = {one.text: one.id for owner in ("ana", "ben") for one in graph.skills(owner=owner)}
    secret, shared = ids["ask before moving a dinner"], ids["serve tea at dinner"]
    graph.connect(secret, "COMPLEMENTS", shared)
    graph.learn(Trajectory("t1", "ana", "dinner", skills=(secret, shared), shown=(secret, shared)), 0.9)


def test_nobody_recalls_anothers_secrets(way_of_searching: tuple[str, GraphSettings], open_graph: OpenGraph) -> None:
    where, settings = way_of_searching
    graph = open_graph(where, settings=settings, writer=Always())
    keep_and_share(graph)
    graph.prepare()

    asked: list[tuple[dict[str, Any], int]] = [
        ({}, 2),
        ({"as_of": 1_750_000_000.0}, 0),
        ({"where": {"kind": "rule"}}, 1),
    ]
    for query in ASKED:
        assert len(graph.recall(query, user="ana", k=9, at_least=0.0)) == 5
        for asker in ("ben", "a stranger", "Ana"):
            for options, count in asked:
                hits = graph.recall(query, user=asker, k=9, at_least=0.0, **options)
                assert [hit.skill.owner for hit in hits] == ["ben"] * count
    told = graph.add(owner="ana", text="I earn much", visibility="shared", valid_from=1_700_000_000.0).id
    graph.update(told, visibility="private")
    for user, count in (("ben", 0), ("ana", 1)):
        then = graph.recall("I earn much", user=user, as_of=1_750_000_000.0)
        assert [hit.skill.text for hit in then].count("I earn much") == count, "what is private now was never seen"
    assert graph.standing("ben", k=5) == graph.standing("Ana", k=5) == []
    assert [one.text for one in graph.standing("ana", k=5)] == ["Please always answer in German"]


def test_naming_anothers_private_skill_uses_and_rates_nothing(where: str, open_graph: OpenGraph) -> None:
    graph = open_graph(where)
    secret = graph.add(owner="ana", text="ask before moving a dinner").id
    shared = graph.add(owner="ana", text="serve tea", visibility="shared").id

    graph.learn(Trajectory("t1", "ben", "", skills=(secret, shared), shown=(secret, shared)), 0.9)

    assert (graph.get(secret).uses, graph.get(shared).uses) == (0, 1)
    assert {edge.kind for edge in graph.history(secret).edges} == {"OWNS"}
    assert {edge.kind for edge in graph.history(shared).edges} == {"OWNS", "EXECUTED", "SHOWN"}
