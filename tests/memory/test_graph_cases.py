"""Cases: requests with their answers and verdicts, recalled as demonstrations for the next request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentfw_memory import GraphSettings, SkillGraph, as_messages, as_text

STREAM = (
    ("my card was stolen", "Emergencies", 1.0),
    ("what does a transfer cost", "Money", 1.0),
    ("my card was swallowed", "Emergencies", 0.9),
    ("my card is blue", "Emergencies", 0.1),
)


@pytest.fixture
def graph() -> Iterator[SkillGraph]:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash") as opened:
        for place, (query, answer, reward) in enumerate(STREAM):
            opened.learn({"id": f"t{place}", "user": "ana", "query": query, "answer": answer}, reward)
        yield opened


def test_the_nearest_good_cases_are_recalled_the_best_last(graph: SkillGraph) -> None:
    found = graph.cases("my card was stolen on the train", user="ana", k=2)

    assert [(case.request, case.answer) for case in found] == [
        ("my card was swallowed", "Emergencies"),
        ("my card was stolen", "Emergencies"),
    ]
    assert as_messages(found)[-2:] == [
        {"role": "user", "content": "my card was stolen"},
        {"role": "assistant", "content": "Emergencies"},
    ]


def test_a_bad_verdict_is_shown_as_what_not_to_answer_or_not_at_all(graph: SkillGraph) -> None:
    hidden = graph.cases("my card is blue", user="ana")
    shown = graph.cases("my card is blue", user="ana", bad=True)

    assert "my card is blue" not in [case.request for case in hidden]
    assert as_text(shown[-1:]) == "Request: my card is blue\nNot this answer: Emergencies"
    assert "my card is blue" not in [message["content"] for message in as_messages(shown)]


def test_cases_fit_a_budget_of_tokens(graph: SkillGraph) -> None:
    def words(text: str) -> int:
        return len(text.split())

    one = words(as_text(graph.cases("my card was stolen", user="ana", k=1)))

    assert graph.cases("my card was stolen", user="ana", tokens=one - 1, count=words) == []
    assert [case.request for case in graph.cases("my card was stolen", user="ana", tokens=one, count=words)] == [
        "my card was stolen"
    ]


def test_a_correction_is_a_case_of_what_was_to_be_answered(graph: SkillGraph) -> None:
    trip = {"id": "t9", "user": "ana", "query": "where is my parcel", "answer": "Money", "corrected": "Deliveries"}
    learned = graph.learn(trip, 0.0)

    assert len(learned.cases) == 2
    assert graph.learn(trip, 0.0).known_already
    assert [case.answer for case in graph.cases("where is my parcel now", user="ana", k=1)] == ["Deliveries"]


def test_cases_are_private_unless_the_graph_shares_them() -> None:
    trip = {"id": "t1", "user": "ana", "query": "my card was stolen", "answer": "Emergencies"}
    found = {}
    for shared in (False, True):
        settings = GraphSettings(share_learned=shared)
        with SkillGraph.open(":memory:", tenant="team", embedder="hash", settings=settings) as graph:
            graph.learn(trip, 1.0)
            found[shared] = [case.owner for case in graph.cases("my card was stolen", user="ben")]

    assert found == {False: [], True: ["ana"]}


def test_cases_stay_apart_from_what_is_remembered(graph: SkillGraph) -> None:
    graph.add(owner="ana", text="my card was made in Bonn")

    assert [hit.skill.text for hit in graph.recall("my card was stolen", user="ana")] == ["my card was made in Bonn"]
    assert graph.hear("My card is from a bank in Bonn.", user="ana", id="m1").kept != ()
    assert len(graph.cases("my card was stolen", user="ana", k=10)) == 3
    graph.forget("ana")
    assert graph.cases("my card was stolen", user="ana") == []


def test_a_secret_never_becomes_part_of_a_case(graph: SkillGraph) -> None:
    trip = {
        "id": "t9",
        "user": "ana",
        "query": "log me in",
        "answer": "with the key sk-proj-AbCdEf0123456789AbCdEf0123456789",
    }

    assert graph.learn(trip, 1.0).cases == ()


def test_cases_stay_apart_after_somebody_was_forgotten_and_in_an_import(tmp_path: Path) -> None:
    path, exported = tmp_path / "s.db", tmp_path / "s.jsonl"
    with SkillGraph.open(path, tenant="team", embedder="hash") as graph:
        for user in ("ana", "ben"):
            trip = {"id": user, "user": user, "query": "my card was stolen", "answer": "Emergencies"}
            graph.learn(trip, 1.0)
        graph.forget("ana")
        graph.admin.export_jsonl(exported)
    with (
        SkillGraph.open(path, tenant="team") as again,
        SkillGraph.open(":memory:", tenant="team", embedder="hash") as other,
    ):
        other.admin.import_jsonl(exported)

        for one in (again, other):
            assert one.recall("my card was stolen", user="ben") == []
            assert [case.owner for case in one.cases("my card was stolen", user="ben")] == ["ben"]
