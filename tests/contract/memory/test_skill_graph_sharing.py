"""What users have in common is shared, and never what fewer than the required number have; and the cases of answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentfw_memory import BadInputError, GraphSettings, SkillDraft, SkillGraph, Step, Trajectory, as_messages, as_text

OpenGraph = Callable[..., SkillGraph]


def opened(place: str | Path = ":memory:", **values: Any) -> SkillGraph:
    chosen = GraphSettings(**{"share_after": 3, **values})
    return SkillGraph.open(place, tenant="team", embedder="hash", settings=chosen)


def say(graph: SkillGraph, user: str, words: str, number: int = 0) -> None:
    graph.learn(Trajectory(f"{user} {number}", user, "a table", ("dining",), (), words), 0.5)


def shown_to(graph: SkillGraph, user: str) -> set[str]:
    return {hit.skill.text for hit in graph.recall("dining", user=user, k=50)}


def test_what_three_users_want_is_shown_to_a_fourth_unless_sharing_is_off() -> None:
    with opened() as graph, opened(share_after=0) as private:
        for user in ("ana", "ben"):
            say(graph, user, "I prefer quiet tables.")
        assert shown_to(graph, "new") == set()

        say(graph, "cem", "I prefer quiet tables.")
        for user in ("ana", "ben", "cem"):
            say(private, user, "I prefer quiet tables.")

        (hit,) = graph.recall("dining", user="new")
        assert (hit.skill.text, hit.skill.visibility) == ("For dining: I prefer quiet tables.", "shared")
        assert hit.skill.owner.startswith("*")
        assert shown_to(private, "new") == set()
    assert GraphSettings().share_after == 0


@pytest.mark.parametrize(
    "words",
    [
        *("I prefer tables at Marios", "I prefer tables at O’Briens", "I prefer tables at „Łukasz“", "Я люблю у Маши"),
        *("I prefer table 1234", "I prefer mail to a@b.org"),
    ],
)
def test_names_numbers_and_addresses_are_never_shared(words: str) -> None:
    with opened() as graph:
        for user in ("ana", "ben", "cem"):
            say(graph, user, words)

        assert shown_to(graph, "new") == set()


@pytest.mark.parametrize("erased", [False, True])
def test_what_too_few_are_left_behind_is_taken_back_with_every_byte(tmp_path: Path, erased: bool) -> None:
    def leave(graph: SkillGraph, user: str) -> None:
        graph.delete(*(skill.id for skill in graph.skills(owner=user))) if erased else graph.forget(user)

    with opened(tmp_path / "skills.db", merge_above=0.5) as graph:
        for user in ("ana", "ben"):
            say(graph, user, "I prefer the quiet tables.")
        say(graph, "cem", "I prefer quiet tables.")
        assert shown_to(graph, "new") == {"For dining: I prefer the quiet tables."}, "as most of them say it"

        leave(graph, "ana")
        assert shown_to(graph, "new") == set()
        for user in ("ben", "cem"):
            leave(graph, user)
    for file in tmp_path.iterdir():
        assert b"quiet tables" not in file.read_bytes()


def test_the_copy_keeps_no_wording_of_a_user_who_left(tmp_path: Path) -> None:
    with opened(tmp_path / "skills.db", merge_above=0.5) as graph:
        for user in ("ben", "cem"):
            say(graph, user, "I prefer quiet tables.")
        for user in ("dan", "ana", "eve"):
            say(graph, user, "I prefer the quiet table.")
        assert shown_to(graph, "new") == {"For dining: I prefer quiet tables."}

        graph.forget("ben")

        assert shown_to(graph, "new") == {"For dining: I prefer quiet tables."}
        graph.forget("cem")
        assert shown_to(graph, "new") == {"For dining: I prefer the quiet table."}, "it is made anew"
        assert not any(b"quiet tables" in file.read_bytes() for file in tmp_path.iterdir())
        graph.forget("dan")
        assert shown_to(graph, "new") == set()


def test_what_is_shared_is_for_the_scenarios_and_tools_that_all_behind_it_have_in_common() -> None:
    def drafted(trip: Trajectory, maximum: int) -> list[SkillDraft]:
        return [SkillDraft("prefer quiet tables", tuple(step.tool for step in trip.steps), trip.scenarios, wish=True)]

    settings = GraphSettings(share_after=3)
    with SkillGraph.open(":memory:", tenant="t", embedder="hash", settings=settings, extractor=drafted) as graph:
        for user, scenarios, tools in (
            ("ana", ("dining", "evening"), ("book", "mail")),
            ("ben", ("dining",), ("book",)),
            ("dan", ("trips",), ("book",)),
            ("cem", ("dining", "lunch"), ("book", "phone")),
        ):
            assert graph.recall("tables", user="new") == [], f"before {user}"
            steps = tuple(Step("do", tool) for tool in tools)
            graph.learn(Trajectory(user, user, "a table", scenarios, steps), 0.9)

        (hit,) = graph.recall("tables", user="new")
        assert (hit.skill.scenarios, hit.skill.tools) == (("dining",), ("book",))


def test_who_says_something_else_is_no_longer_behind_it() -> None:
    with opened(merge_above=0.5) as graph:
        for user in ("ana", "ben", "cem"):
            say(graph, user, "I prefer quiet tables.")

        say(graph, "ana", "I prefer loud tables.", 1)

        assert shown_to(graph, "new") == set()


def test_reserved_names_are_refused() -> None:
    with opened() as graph:
        with pytest.raises(BadInputError, match="reserved"):
            say(graph, "*shared:1", "I prefer quiet tables.")
        with pytest.raises(BadInputError, match="reserved"):
            graph.add(owner="*shared:1", text="prefer quiet tables")
    with pytest.raises(BadInputError, match="share_after"):
        opened(share_after=2)


# Cases: requests with their answers and verdicts, recalled as demonstrations for the next request

STREAM = (
    ("my card was stolen", "Emergencies", 1.0),
    ("what does a transfer cost", "Money", 1.0),
    ("my card was swallowed", "Emergencies", 0.9),
    ("my card is blue", "Emergencies", 0.1),
)


@pytest.fixture
def graph(graph: SkillGraph) -> SkillGraph:
    for place, (query, answer, reward) in enumerate(STREAM):
        graph.learn({"id": f"t{place}", "user": "ana", "query": query, "answer": answer}, reward)
    return graph


def test_the_nearest_good_cases_are_recalled_the_best_last(graph: SkillGraph) -> None:
    found = graph.cases("my card was stolen on the train", user="ana", k=2)

    assert [case.request for case in found] == ["my card was swallowed", "my card was stolen"]
    assert [case.answer for case in found] == ["Emergencies"] * 2
    assert as_messages(found)[-2:] == [
        {"role": "user", "content": "my card was stolen"},
        {"role": "assistant", "content": "Emergencies"},
    ]


def test_a_bad_verdict_is_shown_as_what_not_to_answer_or_not_at_all(graph: SkillGraph) -> None:
    hidden = graph.cases("my card is blue", user="ana")
    shown = graph.cases("my card is blue", user="ana", bad=True)

    graph.learn({"id": "t9", "user": "ana", "query": "my card is red", "answer": "Money"}, 0.5)
    assert graph.cases("my card is red", user="ana")[-1].verdict == 0.5, "just good enough"
    assert "my card is blue" not in [case.request for case in hidden]
    assert as_text(shown[-1:]) == "Request: my card is blue\nNot this answer: Emergencies"
    assert "my card is blue" not in [message["content"] for message in as_messages(shown)]


def test_cases_fit_a_budget_of_tokens(graph: SkillGraph) -> None:
    def requests(tokens: int) -> list[str]:
        found = graph.cases("my card was stolen", user="ana", tokens=tokens, count=lambda text: len(text.split()))
        return [case.request for case in found]

    one = len(as_text(graph.cases("my card was stolen", user="ana", k=1)).split())

    assert (requests(one - 1), requests(one)) == ([], ["my card was stolen"])


def test_a_correction_is_a_case_of_what_was_to_be_answered_and_a_secret_is_none(graph: SkillGraph) -> None:
    trip = {"id": "t9", "user": "ana", "query": "where is my parcel", "answer": "Money", "corrected": "Deliveries"}

    assert len(graph.learn(trip, 0.0).cases) == 2
    assert graph.learn(trip, 0.0).known_already
    assert [case.answer for case in graph.cases("where is my parcel now", user="ana", k=1)] == ["Deliveries"]
    graph.learn({**trip, "id": "t11", "answer": "Post", "corrected": ""}, 1.0)
    asked = [(case.request, case.answer) for case in graph.cases("where is my parcel now", user="ana")]
    assert [answer for request, answer in asked if request == trip["query"]] == ["Post"], "the newest that was good"
    key = "with the key sk-proj-AbCdEf0123456789AbCdEf0123456789"
    for number, texts in enumerate((("log me in", key), (key, "done"))):
        query, answer = texts
        trip = {"id": f"t1{number}", "user": "ana", "query": query, "answer": answer}
        assert graph.learn(trip, 1.0).cases == ()


def test_cases_are_private_unless_the_graph_shares_them(open_graph: OpenGraph) -> None:
    trip = {"query": "my card was stolen", "answer": "Emergencies"}
    for shared, owners in ((False, []), (True, ["ana", "cem"])):
        graph = open_graph(":memory:", settings=GraphSettings(share_learned=shared))
        for user in ("ana", "cem"):
            graph.learn({**trip, "id": user, "user": user}, 1.0)
        assert sorted(case.owner for case in graph.cases("my card was stolen", user="ben")) == owners


def test_cases_stay_apart_from_what_is_remembered(graph: SkillGraph) -> None:
    graph.add(owner="ana", text="my card was made in Bonn")

    for when in (None, 9e9):
        hits = graph.recall("my card was stolen", user="ana", as_of=when)
        assert [hit.skill.text for hit in hits] == ["my card was made in Bonn"]
    mine = graph.add(owner="ana", text="my card is in my case", metadata={"case": "A-17"}).id
    assert mine in [hit.skill.id for hit in graph.recall("my card", user="ana")], "a name of the caller's own"
    graph.delete(mine)
    assert len(graph.recall("my card", user="ana", where={"case.verdict": {"$gte": 0.9}})) == 3
    wrong, right = "My card is from a bank in Bonn.", "That's wrong, my card is from a bank in Rome."
    graph.hear(wrong, user="ana", id="m1")
    graph.learn({"id": "t9", "user": "ana", "query": right, "answer": "Noted"}, 1.0)
    (newer,) = graph.hear(right, user="ana", id="m2").kept
    marked = [hit.newer for hit in graph.recall(wrong, user="ana") if hit.skill.text == wrong]
    assert marked == [newer], "though a case is more similar to what corrects it"
    assert len(graph.cases("my card was stolen", user="ana", k=10)) == 4
    graph.forget("ana")
    assert graph.cases("my card was stolen", user="ana") == []


def test_cases_stay_apart_when_moved_or_forgotten(graph: SkillGraph, open_graph: OpenGraph, tmp_path: Path) -> None:
    graph.learn({"id": "t9", "user": "ben", "query": "my card was stolen", "answer": "Emergencies"}, 1.0)
    graph.forget("ana")
    graph.admin.export_jsonl(tmp_path / "s.jsonl")
    again, other = open_graph(tmp_path / "skills.db", embedder=""), open_graph(":memory:", embedder="hash")
    other.admin.import_jsonl(tmp_path / "s.jsonl")

    for one in (again, other):
        assert one.recall("my card was stolen", user="ben") == []
        assert [case.owner for case in one.cases("my card was stolen", user="ben")] == ["ben"]
