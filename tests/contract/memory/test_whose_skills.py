"""A private skill is its owner's alone, however one asks: by recall, with a filter, as of a time, by a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw

from agentfw_memory import GraphSettings, NewSkill, Said, SkillGraph, Trajectory

OpenGraph = Callable[..., SkillGraph]
QUERIES = (
    "ask before moving a dinner",
    "where does ana live?",
    "where do I live?",
    "how should I answer ana?",
    "serve tea at dinner",
    "zebra",
)


class Always:
    """A writer for which everything matters to every answer."""

    async def write(self, sayings: Sequence[Said]) -> Sequence[object]:
        return [
            [{"action": "ADD", "text": one, "evidence": one, "always": True} for one in said.own] for said in sayings
        ]


def fill(graph: SkillGraph) -> dict[str, str]:
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
    return ids


@pytest.mark.parametrize("asker", ["ben", "a stranger", "Ana"])
def test_nobody_recalls_what_another_keeps_private(
    way_of_searching: tuple[str, GraphSettings], open_graph: OpenGraph, asker: str
) -> None:
    where, settings = way_of_searching
    graph = open_graph(where, settings=settings, extractor=lambda trajectory, maximum: [], writer=Always())
    fill(graph)
    graph.prepare()

    asked: list[dict[str, Any]] = [{}, {"as_of": 1_750_000_000.0}, {"where": {"kind": "rule"}}]
    for query in QUERIES:
        own = graph.recall(query, user="ana", k=9, at_least=0.0)
        assert len(own) == 5
        for options in asked:
            hits = graph.recall(query, user=asker, k=9, at_least=0.0, **options)
            assert {hit.skill.owner for hit in hits} <= {"ben"}
            assert len(hits) == (0 if "as_of" in options else 1 if "where" in options else 2)
    assert graph.standing(asker, k=5) == []
    assert [one.text for one in graph.standing("ana", k=5)] == ["Please always answer in German"]


def test_a_skill_that_becomes_private_is_seen_by_its_owner_alone_at_once(
    way_of_searching: tuple[str, GraphSettings], open_graph: OpenGraph
) -> None:
    where, settings = way_of_searching
    graph, other = open_graph(where, settings=settings), open_graph(where, settings=settings)
    skill = graph.add(owner="ana", text="serve green tea", visibility="shared").id
    assert [len(one.recall("tea", user="ben")) for one in (graph, other)] == [1, 1]

    graph.update(skill, visibility="private")
    hidden = [len(one.recall("tea", user="ben")) for one in (graph, other)]
    of_owner = [len(one.recall("tea", user="ana")) for one in (graph, other)]
    graph.update(skill, visibility="shared")

    assert (hidden, of_owner) == ([0, 0], [1, 1])
    assert [len(one.recall("tea", user="ben")) for one in (graph, other)] == [1, 1]


def test_naming_anothers_private_skill_uses_and_rates_nothing(where: str, open_graph: OpenGraph) -> None:
    graph = open_graph(where)
    secret = graph.add(owner="ana", text="ask before moving a dinner").id
    shared = graph.add(owner="ana", text="serve tea", visibility="shared").id

    graph.learn(Trajectory("t1", "ben", "", skills=(secret, shared), shown=(secret, shared)), 0.9)

    assert (graph.get(secret).uses, graph.get(shared).uses) == (0, 1)
    assert {edge.kind for edge in graph.history(secret).edges} == {"OWNS"}
    assert {edge.kind for edge in graph.history(shared).edges} == {"OWNS", "EXECUTED", "SHOWN"}


def test_commands_show_a_user_what_is_theirs_and_a_tenant_what_is_its_own(agentfw: Agentfw, tmp_path: Path) -> None:
    store = tmp_path / "runs" / "memory.db"
    store.parent.mkdir()
    for tenant, thing in (("ours", "kettle"), ("theirs", "lantern")):
        with SkillGraph.open(store, tenant=tenant, embedder="hash") as graph:
            graph.add(owner="ana", text=f"the secret {thing}", metadata={"kind": thing})
            graph.add(owner="ben", text=f"a shared {thing}", visibility="shared")

    recalled = agentfw("memory", "recall", "--tenant", "ours", "--user", "ben", "secret kettle lantern", "--json").json
    exported = agentfw("memory", "export", "ours.jsonl", "--tenant", "ours")

    assert [hit["skill"]["text"] for hit in recalled] == ["a shared kettle"]
    assert (
        agentfw("memory", "list", "--tenant", "theirs", "--owner", "ben", "--json").json[0]["text"]
        == "a shared lantern"
    )
    assert exported.code == 0
    text = (tmp_path / "ours.jsonl").read_text("utf-8")
    assert "secret kettle" in text
    assert "lantern" not in text
