"""A model that writes: what it answers is written only as far as it holds, and what was said is kept otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agentfw_memory import ModelWriter, Saying, SkillGraph

pytest.importorskip("igraph")

BLANK = {
    "action": "ADD",
    "text": "",
    "evidence": "",
    "id": "",
    "about": "",
    "since": "",
    "shared": False,
    "always": False,
}


class Scripted:
    """A model that answers what it is told to, and keeps what it was asked."""

    def __init__(self, *answers: object, wait: float = 0.0) -> None:
        self.answers, self.asked, self._wait = [*answers], list[list[dict[str, Any]]](), wait

    async def complete(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> str:
        self.asked.append(json.loads(messages[-1]["content"])["messages"])
        await asyncio.sleep(self._wait)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, str) else json.dumps({"messages": [answer]})


def decided(**fields: object) -> list[dict[str, object]]:
    return [{**BLANK, **fields}]


def opened(*answers: object, wait: float = 0.0, **settings: Any) -> tuple[SkillGraph, Scripted]:
    model = Scripted(*answers, wait=wait)
    writer = ModelWriter(model, **settings)
    return SkillGraph.open(":memory:", tenant="team", embedder="hash", writer=writer), model


def kept(graph: SkillGraph, user: str = "ana") -> list[str]:
    return [skill.text for skill in graph.skills(owner=user)]


def test_what_a_model_remembers_may_be_a_paraphrase_with_its_evidence_and_date() -> None:
    graph, model = opened(
        decided(text="Lives in Lyon", evidence="I moved to Lyon", since="2020-05-01", about="ana", always=True)
    )
    with graph:
        heard = graph.hear("actually I moved to Lyon", user="ana", conversation="c", answer_to="Where are you?")
        (skill,) = graph.skills(owner="ana")
        assert (heard.kept, heard.problem) == ((skill.id,), "")
        assert (skill.text, skill.metadata["said"], skill.valid_from) == (
            "Lives in Lyon",
            "I moved to Lyon",
            1588291200,
        )
        assert graph.standing("ana", k=1) == [skill]
        assert model.asked[0][0]["before"] == [{"role": "assistant", "text": "Where are you?"}]


def test_a_model_sees_the_turns_before_and_the_nearest_memories_of_this_user() -> None:
    graph, model = opened(decided(text="Has a dog", evidence="a dog"), decided(text="The dog is Rex", evidence="Rex"))
    with graph:
        graph.add(owner="ben", text="Has a dog, too")
        graph.hear("I've got a dog", user="ana", conversation="c")
        graph.hear("He's called Rex", user="ana", conversation="c")
        (asked,) = model.asked[1]
        assert asked["before"] == [{"role": "user", "text": "I've got a dog"}]
        assert [one["text"] for one in asked["memories"]] == ["Has a dog"]
        assert kept(graph) == ["Has a dog", "The dog is Rex"]


def test_a_newer_statement_wins_and_the_older_keeps_its_dates() -> None:
    graph, _ = opened(decided(action="UPDATE", id="s2", text="Works at Bosch", evidence="I work at Bosch now"))
    with graph:
        old = graph.add(owner="ana", text="Works at Siemens", valid_from=1_000.0)
        assert old.id == "s2"
        graph.hear("I work at Bosch now", user="ana", at=2_000.0)
        versions = graph.history("s2").versions
        assert [(one.text, one.valid_from, one.valid_to) for one in versions] == [
            ("Works at Siemens", 1_000.0, 2_000.0),
            ("Works at Bosch", 2_000.0, None),
        ]


def test_a_colleague_corrects_what_is_shared_and_both_names_stay() -> None:
    graph, _ = opened(decided(action="UPDATE", id="s2", text="The office is in room 5", evidence="office is in room 5"))
    with graph:
        graph.add(owner="ana", text="The office is in room 4", visibility="shared", valid_from=1_000.0)
        graph.hear("the office is in room 5", user="ben", at=2_000.0)
        newer, older = graph.recall("Which room is the office in?", user="carl")
        assert (newer.skill.owner, newer.skill.text) == ("ben", "The office is in room 5")
        assert (older.skill.owner, older.newer) == ("ana", newer.skill.id)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (decided(text="Owns a yacht", evidence="I own a yacht"), "wasn't said"),
        (decided(text="", evidence="I live in Rome"), "no text"),
        (decided(text="The password is hunter2", evidence="I live in Rome"), "secret"),
        (decided(action="UPDATE", id="s2", text="Lives in Rome", evidence="I live in Rome"), "isn't about s2"),
        (decided(action="UPDATE", id="s9", text="Lives in Rome", evidence="I live in Rome"), "none of the memories"),
        (decided(action="DELETE", id="s2", evidence="I live in Rome"), "isn't about s2"),
        (decided(action="DROP", evidence="I live in Rome"), "no action"),
        (decided(text="Lives in Rome", evidence="I live in Rome", since="yesterday"), "no date"),
        (decided(text=7, evidence="I live in Rome"), "no text"),
        ({"facts": []}, "no list"),
        ("certainly! here you are", "another form"),
        (json.dumps({"messages": []}), "another form"),
        (RuntimeError("the server is away"), "the server is away"),
    ],
)
def test_what_does_not_hold_is_not_written_and_what_was_said_is_kept(answer: object, problem: str) -> None:
    graph, _ = opened(answer)
    with graph:
        graph.add(owner="ana", text="zebra quagga")
        heard = graph.hear("I live in Rome.", user="ana", id="m1")
        assert problem in heard.problem
        assert heard.to_forget == ()
        assert kept(graph) == ["zebra quagga", "I live in Rome."]


def test_a_model_that_is_slow_or_over_its_budget_is_done_without() -> None:
    graph, _ = opened(decided(), wait=5.0, timeout=0.05)
    with graph:
        assert "no answer within 0.05 s" in graph.hear("I live in Rome.", user="ana").problem
        assert kept(graph) == ["I live in Rome."]
    graph, model = opened(decided(), most_characters=100)
    with graph:
        assert "budget of 100 characters" in graph.hear("I live in Rome.", user="ana").problem
        assert (kept(graph), model.asked) == (["I live in Rome."], [])


def test_only_ones_own_memory_is_asked_to_be_deleted() -> None:
    request = "forget that I have a dog"
    graph, _ = opened(
        decided(action="DELETE", id="s2", evidence=request), decided(action="DELETE", id="s2", evidence=request)
    )
    with graph:
        graph.add(owner="ana", text="Has a dog", visibility="shared")
        assert graph.hear(request, user="ben").to_forget == ()
        assert graph.hear(request, user="ana").to_forget == ("s2",)
        assert kept(graph) == ["Has a dog"]


def test_an_import_asks_about_several_messages_in_one_request() -> None:
    whole = json.dumps({"messages": [decided(text=f"Has {one} cats", evidence=f"{one} cats") for one in range(3)]})
    graph, model = opened(whole)
    with graph:
        heard = graph.hear_all([Saying(f"I have {one} cats", "ana", id=f"m{one}") for one in range(3)])
        assert len(model.asked) == 1
        assert [len(one.kept) for one in heard] == [1, 1, 1]
        assert kept(graph) == ["Has 0 cats", "Has 1 cats", "Has 2 cats"]
