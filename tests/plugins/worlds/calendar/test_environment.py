"""The environment: what an agent sees, what counts as a decision, what is measured."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentfw import Engagement, PolicyAgent, Task
from agentfw.episode import Call, Episode
from agentfw.interfaces import Interface, Polling, StepLoop
from agentfw.policy import Generation, Policy, Request
from agentfw.request import Moment
from agentfw_plugins.worlds.calendar.dataset import Dataset
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts, CalendarSettings
from agentfw_plugins.worlds.calendar.event_attributes import event_line, parse_line

Answer = Callable[[Request], Sequence[Call] | str]


class Player(Policy):
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.moments: list[Moment] = []
        self.requests: list[Request] = []

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        self.moments.append(request.moment)
        self.requests.append(request)
        answer = self.answer(request)
        if isinstance(answer, str):
            return Generation(text=answer, count=1)
        return Generation(calls=tuple(answer), count=1)


def play(
    answer: Answer,
    *,
    task: Task | None = None,
    interface: Interface | None = None,
    tokens: float = 0.0,
    **settings: Any,
) -> tuple[Episode, Player]:
    environment = CalendarConflicts(CalendarSettings(**{"rounds": 6, **settings}))
    player = Player(answer)
    engagement = Engagement(environment, PolicyAgent(player), interface, time_per_token=tokens)
    return asyncio.run(engagement.run(task or environment.tasks(1, 7, "test")[0])), player


def decide(accept: object, ranking: object = None, **more: object) -> list[Call]:
    arguments = {"accept": accept, **({} if ranking is None else {"ranking": ranking}), **more}
    return [Call("decide", arguments)]


def truth(number: int, rounds: int = 6, user: str = "7-test-0-0") -> str:
    dataset = Dataset(7)
    return dataset.calendar(dataset.user(user), rounds=rounds).rounds[number - 1].answer


def knows(request: Request) -> list[Call]:
    """Somebody who knows the answers."""
    assert request.moment is not None
    answer = truth(request.moment.round)
    return decide(answer, [answer, *(letter for letter in "ABCDE" if letter != answer)], reason="I just know")


# -- what is seen ------------------------------------------------------------------------------------------------------


def test_an_agent_is_asked_once_a_round_in_text_and_values_that_say_the_same_and_no_answer() -> None:
    weights = Dataset(7).user("7-test-0-0").weights
    episode, player = play(knows)

    assert (episode.finish, episode.rounds, len(player.moments)) == ("finished", 6, 6)
    names = [[observation.name for observation in moment.observations] for moment in player.moments]
    assert names == [["conflict"], *[["feedback", "conflict"]] * 5]
    assert [moment.round for moment in player.moments] == [1, 2, 3, 4, 5, 6]
    assert [moment.now for moment in player.moments] == sorted({moment.now for moment in player.moments})
    for moment in player.moments:
        (conflict,) = moment.of("conflict")
        lines = [line for line in conflict.text.splitlines() if line[1:3] == ": "]
        assert len(lines) == 5
        for line, event in zip(lines, conflict.data["events"], strict=True):
            letter, title, tags = parse_line(line)
            assert {"letter": letter, "title": title, **tags} == event
            assert event_line(letter, title, tags) == line
            assert not {"reasons", "template"} & set(event)
        assert conflict.text.startswith(f"conflict: week {conflict.data['week']}, {conflict.data['when']}, for ")
        assert len(conflict.text) < 1200
        assert not {"accepted", "answer", "anchor", "case", "margin", "weights", "value"} & set(conflict.data)
    seen = json.dumps([[message.role, message.content] for message in episode.messages])
    assert not [word for word in ("weight", *weights) if word == "weight" or "_" in word if word in seen]


def test_feedback_says_what_was_kept_and_one_thing_that_mattered() -> None:
    dataset = Dataset(7)
    user = dataset.user("7-test-0-0")
    rounds = dataset.calendar(user, rounds=6).rounds
    episode, player = play(lambda request: decide("A", list("ABCDE")))
    feedback = [event.data for event in episode.events if event.kind == "observation" and event.name == "feedback"]
    assert [one["accepted"] for one in feedback] == [shown.answer for shown in rounds]
    for one, shown in zip(feedback, rounds, strict=True):
        assert one["right"] == (shown.answer == "A")
        name = one["because"]["principle"]
        principle, weight = user.principles[name], user.weights[name]
        # It really spoke for the kept event: valued and there, or off-putting and at the other.
        kept = shown.tags[shown.accepted]
        assert one["because"]["valued"] == (weight > 0) == principle.triggers(kept)
        words = principle.praise if weight > 0 else principle.complaint
        assert any(one["said"].endswith(f"{word[0].upper()}{word[1:]}.") for word in words)
        assert one["said"] in one["text"]
        assert f"{shown.answer} is kept" in one["text"]
    assert len(player.moments) == 6


def test_each_episode_is_a_user_of_the_split_and_a_second_time_another_year() -> None:
    environment = CalendarConflicts(CalendarSettings(rounds=3))
    tasks = environment.tasks(20, 1, "test")
    assert [task.user for task in tasks[:10]] == Dataset(7).users("test")
    assert [task.user for task in tasks[10:]] == [task.user for task in tasks[:10]]
    assert len({task.seed for task in tasks}) == 20
    first, _ = play(knows, task=tasks[0], rounds=3)
    second, _ = play(lambda request: decide("A"), task=tasks[10], rounds=3)
    texts = [
        [event.data["text"] for event in episode.events if event.name == "conflict"] for episode in (first, second)
    ]
    assert texts[0] != texts[1]
    # The run's seed is the policy's business: it changes no user and no conflict.
    assert [task.user for task in environment.tasks(10, 99, "test")] == [task.user for task in tasks[:10]]


def test_an_organisation_that_was_changed_is_read_again(tmp_path: Path, bakery: Path) -> None:
    for name in ("bakery", "coffee roaster"):
        (tmp_path / "own.yaml").write_text(
            bakery.read_text("utf-8").replace("organisation: bakery", f"organisation: {name}")
        )
        episode, _ = play(lambda request: decide("A"), organisations=str(tmp_path), users_each=1, rounds=1)
        assert [one.data["archetype"] for one in episode.events if one.name == "conflict"] == [name]


# -- what counts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interface", [None, Polling(1)])
def test_who_knows_makes_no_error_under_any_interface(interface: Interface | None) -> None:
    episode, _ = play(knows, interface=interface)
    assert episode.outcome == {"error": 0, "aer@1": 0, "aer": 0, "ord": 1, "error_reduction": 0, "invalid": 0}
    assert (episode.series("error"), episode.series("ord"), episode.utility) == ([0.0] * 6, [1.0] * 6, 6.0)
    assert [measure.round for measure in episode.measures if measure.name == "error"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("spelling", ["{0}", " {1} ", "{0}. the one", 0])
def test_letters_are_understood_as_people_and_models_write_them(spelling: str | int) -> None:
    def answer(request: Request) -> list[Call]:
        assert request.moment is not None
        letter = truth(request.moment.round)
        if spelling == 0:
            return decide("ABCDE".index(letter) + 1)
        return decide(str(spelling).format(letter, letter.lower()))

    episode, _ = play(answer)
    assert episode.outcome["error"] == 0.0


@pytest.mark.parametrize(
    "arguments",
    [
        {"accept": "F"},
        {"accept": "6"},
        {"accept": ["A"]},
        {"ranking": ["A"]},
        {"accept": "A", "ranking": "ABCDE"},
        {"accept": "A", "ranking": ["Z"]},
        {"accept": "A", "sure": True},
    ],
)
def test_a_decision_that_can_not_be_understood_ends_the_round_as_wrong(arguments: dict[str, Any]) -> None:
    episode, player = play(lambda request: [Call("decide", arguments)], rounds=3)
    assert [episode.outcome[name] for name in ("invalid", "error", "ord")] == [1.0, 1.0, 0.0]
    assert episode.series("format") == [0.0] * 3
    assert len([event for event in episode.events if event.kind == "refused"]) == 3
    # What was wrong is told together with the next conflict; nobody is asked in between.
    assert len(player.moments) == 3
    names = [observation.name for observation in player.moments[1].observations]
    assert sorted(names) == ["conflict", "feedback", "refused"]
    assert episode.finish == "finished"


def test_an_incomplete_ranking_decides_but_is_not_well_formed() -> None:
    for ranking in (None, ["A"], list("AABCD"), list("ABCD")):
        episode, _ = play(lambda request, ranking=ranking: decide("A", ranking))  # type: ignore[misc]
        assert episode.outcome["invalid"] == 0.0
        assert episode.series("format") == [0.0] * 6
    episode, _ = play(lambda request: decide("A", list("ABCDE")))
    assert episode.series("format") == [1.0] * 6


def test_the_round_ends_at_the_first_decision_of_a_turn() -> None:
    """A second decision in the same turn would be about a conflict that nobody has seen yet."""
    episode, _ = play(lambda request: [*decide("A"), *decide("B")])
    assert len(episode.series("error")) == 6
    refused = [event for event in episode.events if event.kind == "refused"]
    assert "no conflict is open" in refused[0].data["reason"]
    assert episode.finish == "finished"


@pytest.mark.parametrize("turns", [1, 2, 4])
def test_who_says_nothing_has_so_many_turns_and_is_told(turns: int) -> None:
    episode, player = play(lambda request: "Let me think.", turns=turns, rounds=3)
    assert len(player.moments) == 3 * turns
    assert episode.outcome["invalid"] == 1.0
    told = [event.data["text"] for event in episode.events if event.name == "undecided"]
    assert len(told) == 3 * (turns - 1)
    if turns == 4:
        assert told[0].startswith("undecided: 3 more turns for this conflict.")
        assert told[2].startswith("undecided: 1 more turn for this conflict.")


def test_who_decides_and_also_writes_what_can_not_be_read_hears_of_it_with_the_next_conflict() -> None:
    """In between there is nothing to decide: a model that answers nothing to that would be asked for ever."""
    decision = '<tool_call>{"name": "decide", "arguments": {"accept": "A"}}</tool_call>'
    episode, player = play(lambda request: f'<tool_call>{{"name": "remember"}}</tool_call>\n{decision}')
    assert len(player.moments) == 6
    assert episode.finish == "finished"
    assert "not understood" in player.requests[1].messages[-1].content
    assert "conflict:" in player.requests[1].messages[-1].content


def test_who_thinks_beyond_the_next_conflict_has_missed_this_one() -> None:
    episode, _ = play(lambda request: decide("A"), tokens=10_000.0, interface=StepLoop(), rounds=4)
    assert episode.finish == "finished"
    assert episode.outcome["invalid"] > 0
    assert len(episode.series("error")) == 4
