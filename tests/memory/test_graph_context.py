"""A recall can start from a scenario and from tools, and follow time without following owners or scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentfw_memory import BadInputError, GraphSettings, SkillGraph


@pytest.fixture
def graph() -> Iterator[SkillGraph]:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash") as opened:
        for place in range(30):
            opened.add(owner="ana", text=f"note {place} about the office", valid_from=9e4 * place)
        yield opened


def test_a_skill_of_the_named_scenario_is_found_though_the_query_says_nothing_of_it(graph: SkillGraph) -> None:
    graph.add(owner="ana", text="earliest slot first", scenarios=["rescheduling"])
    graph.add(owner="ben", text="latest slot first", scenarios=["rescheduling"])

    plain = [hit.skill.text for hit in graph.recall("note about the office", user="ana", k=40)]
    hits = graph.recall("note about the office", user="ana", k=40, scenario="rescheduling")

    assert "earliest slot first" not in plain
    (hit,) = [hit for hit in hits if hit.why.context]
    assert (hit.skill.text, hit.why.context) == ("earliest slot first", 1.0)
    assert hit.why.path == "of the scenario or the tools that were named"


def test_skills_that_require_a_named_tool_come_first(graph: SkillGraph) -> None:
    graph.add(owner="ana", text="write short notes", tools=["mail"], scenarios=["replying"])
    graph.add(owner="ana", text="write long notes", tools=["calendar"], scenarios=["replying"])

    for tool, first in (("mail", "write short notes"), ("calendar", "write long notes")):
        assert graph.recall("write notes", user="ana", tools=[tool])[0].skill.text == first
    both = graph.recall("write notes", user="ana", scenario="replying", tools=["mail"])
    assert [hit.why.context for hit in both[:2]] == [1.0, 0.5]


def test_unknown_scenarios_and_tools_change_nothing_and_bad_names_are_refused(graph: SkillGraph) -> None:
    plain = graph.recall("office", user="ana")

    assert graph.recall("office", user="ana", scenario="unheard of", tools=["telescope"]) == plain
    for context in ({"scenario": ""}, {"tools": "mail"}):
        with pytest.raises(BadInputError):
            graph.recall("office", user="ana", **context)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, {"leaves at nine"}),
        ({"siblings": 10, "time_hop": False}, {"leaves at nine", "pack light", "unrelated"}),
        ({"time_hop": False}, set()),
    ],
)
def test_the_hop_over_time_is_apart_from_the_hop_over_owners(changes: dict[str, Any], found: set[str]) -> None:
    settings = GraphSettings(candidates=1, at_least=0.0, query_similarity="words", **changes)
    with SkillGraph.open(":memory:", tenant="team", embedder="hash", settings=settings) as graph:
        for text, scenarios, when in (
            ("the ferry to Naxos", ["travel"], 9e4),
            ("leaves at nine", [], 9e4 + 60),
            ("pack light", ["travel"], 9e5),
            ("unrelated", [], 9e6),
        ):
            graph.add(owner="ana", text=text, scenarios=scenarios, valid_from=when)

        hits = graph.recall("ferry to Naxos", user="ana", k=10)

    assert {hit.skill.text for hit in hits} - {"the ferry to Naxos"} == found
