"""The proactive world: what an agent reads, what becomes of its answers, and what is measured."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw import Engagement, Episode, Generation, Interface, Policy, PolicyAgent, Request
from agentfw.episode import Call
from agentfw.errors import SettingsError, UsageError
from agentfw.interfaces import parse_interface
from agentfw.testing import fresh_host
from agentfw_papers.timing import STATUSES, Dialogue, Input, Opportunity, Trigger, next_questions
from agentfw_papers.worlds.proactive.asg import ActionStates, observed
from agentfw_papers.worlds.proactive.conversations import asked_turns
from agentfw_papers.worlds.proactive.dataset import Example, generated, write_data
from agentfw_papers.worlds.proactive.domains import load_domain
from agentfw_papers.worlds.proactive.environment import Proactive, read_turn
from agentfw_papers.worlds.proactive.phrases import Phrases
from agentfw_papers.worlds.proactive.prompting import write_answer
from agentfw_papers.worlds.proactive.settings import ProactiveSettings

HOST = fresh_host("agentfw_papers.plugin:plugin", builtins=True, strict=False)
DOMAIN = load_domain("abcd")


class Answering(Policy):
    """Answers each question with what a function makes of it, and remembers the questions."""

    def __init__(self, answer: Callable[[int], str | Generation]) -> None:
        self.answer, self.requests = answer, list[Request]()

    async def generate(self, request: Request) -> Generation:
        self.requests.append(request)
        given = self.answer(len(self.requests) - 1)
        return Generation(given, count=len(given)) if isinstance(given, str) else given

    @property
    def texts(self) -> list[str]:
        return [request.messages[-1].content for request in self.requests]


def play(
    environment: Proactive, policy: Policy, *, index: int = 0, interface: str = "event_driven", split: str = "test"
) -> Episode:
    task = environment.tasks(index + 1, 7, split)[index]
    chosen: Interface = parse_interface(interface)
    return asyncio.run(Engagement(environment, PolicyAgent(policy), chosen).run(task))


def dialogues(**settings: Any) -> Proactive:
    return Proactive(ProactiveSettings.model_validate({"unit": "dialogue", "dialogues": 20, **settings}))


# -- what an agent reads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["turn", "dialogue"])
def test_nothing_of_the_future_is_told(unit: str) -> None:
    environment = dialogues(unit=unit)

    for index in range(10):
        policy = Answering(lambda _: "nothing")
        episode = play(environment, policy, index=index)
        spoken = environment.example(episode.task).dialogue.turns

        for request, turn in zip(policy.requests, episode.turns, strict=True):
            told = "\n".join(message.content for message in request.messages)
            lines = [f"\n{number} {one.speaker}: " for number, one in enumerate(spoken, start=1)]
            assert [line in told for line in lines] == [number <= turn.round for number in range(1, len(spoken) + 1)]
            assert f" of {len(spoken)}" not in told


def test_an_agent_is_asked_at_spoken_turns_unless_the_settings_say_otherwise() -> None:
    asked = {}
    for ask in ("spoken", "every", "customer"):
        environment = dialogues(ask=ask)
        episode = play(environment, Answering(lambda _: "nothing"))
        speakers = [turn.speaker for turn in environment.example(episode.task).dialogue.turns]
        asked[ask] = [speakers[turn.round - 1] for turn in episode.turns]

    assert set(asked["spoken"]) == {"customer", "professional"}
    assert set(asked["customer"]) == {"customer"}
    assert len(asked["every"]) == len(speakers) > len(asked["spoken"]) > len(asked["customer"])


def test_the_states_have_predictions_of_the_turn_before_and_triggers_that_were_observed() -> None:
    environment = dialogues(style="asg", answers="lines", early_end=0.0)
    policy = Answering(lambda place: "offer-refund pending amount=?" if place == 0 else "nothing")

    episode = play(environment, policy)

    assert "states so far:\nnone" in policy.texts[0]
    assert "states so far:\noffer-refund pending amount=?" in policy.texts[1]
    for trigger in environment.example(episode.task).dialogue.triggers:
        later = [text for text, turn in zip(policy.texts, episode.turns, strict=True) if turn.round >= trigger.turn]
        assert all(f"{trigger.action} triggered" in text for text in later)


# -- what becomes of answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", ["json", "lines", "calls"])
def test_the_references_as_answers_agree_fully_however_they_are_written(answers: str) -> None:
    environment = dialogues(answers=answers)
    example = environment.example(environment.tasks(1, 7, "test")[0])
    asked = asked_turns(example.dialogue, "spoken")

    def reference(place: int) -> str:
        return write_answer(example.annotation.at(asked[place]).opportunities, environment.settings.answers)

    episode = play(environment, Answering(reference))

    expected = environment.references(episode.task)["oracle"]
    names = ("ac", "max_ac", "pt", "ftr", "rar", "silent")
    assert episode.outcome["format"] == 1
    assert [episode.outcome[name] for name in names] == [expected[name] for name in names]


def test_calls_that_a_policy_separates_itself_are_predictions() -> None:
    rows: list[Any] = [{"name": name, "status": "pending", "inputs": {}} for name in ("dance", "search-faq")]
    calls = tuple(Call("predict", {"opportunities": [row]}) for row in rows)
    policy, environment = Answering(lambda _: Generation("", calls, count=3)), dialogues(answers="calls")

    episode = play(environment, policy)

    assert [action.name for action in policy.requests[0].actions] == ["predict"]
    assert (episode.outcome["silent"], episode.outcome["unknown_names"]) == (0, 0), "the last call counts"
    (said,) = read_turn(episode.turns[0], environment.catalog).opportunities
    assert said.name == "search-faq", "and is what a judge reads"


@pytest.mark.parametrize(
    "text", ["", "I can't say.", '{"name": "search-faq"', "<action>soon</action>", "\x00\ud800", "search-faq soon"]
)
def test_what_cannot_be_read_is_an_empty_prediction_and_asked_once(text: str) -> None:
    episode = play(dialogues(), Answering(lambda _: text))

    rounds = [turn.round for turn in episode.turns]
    assert rounds == sorted(set(rounds))
    assert (episode.outcome["format"], episode.outcome["silent"]) == (0, 1)
    assert not any(turn.failures for turn in episode.turns)


def test_questions_count_if_they_ask_for_a_missing_input() -> None:
    opportunity = {"name": "offer-refund", "status": "pending", "inputs": {"amount": None}}
    answer = {"opportunities": [opportunity], "questions": ["Which amount was it?", "How are you?"]}

    episode = play(dialogues(questions=True), Answering(lambda _: json.dumps(answer)))

    assert episode.series("asked_missing")[1] == 0.5


@pytest.mark.parametrize("split", ["train", "test"])  # in the test split they say "Please let me know your name."
def test_questions_are_compared_with_what_the_professional_asks_next(split: str) -> None:
    environment = dialogues(questions=True, encoder="hash:256", flows=["recover_password"])
    example = environment.example(environment.tasks(1, 7, split)[0])
    asked = asked_turns(example.dialogue, "spoken")
    asks = Phrases.of(DOMAIN.phrases, "abcd").asks_for
    following = {turn: next_questions(example.dialogue.turns, turn, asks=asks) for turn in asked}

    def answer(place: int) -> str:
        wanted = following[asked[place]]
        # At one turn of two the very question, and something else at the others.
        return json.dumps({"opportunities": [], "questions": wanted if place % 2 else ["Do you like music?"]})

    episode = play(environment, Answering(answer), split=split)

    found = {one.round: one.value for one in episode.measures if one.name == "ic"}
    assert any(following.values())
    assert found.keys() == {turn for turn, questions in following.items() if questions}
    for place, turn in enumerate(asked):
        if following[turn]:
            assert (found[turn] == pytest.approx(1)) == bool(place % 2)


# -- what is measured --------------------------------------------------------------------------------------------------


def test_tokens_that_take_time_move_a_prediction_to_the_turn_at_which_it_lands() -> None:
    environment = dialogues(time_per_token=0.25)
    policy = Answering(lambda _: Generation("search-faq pending", count=6))

    episode = play(environment, policy, interface="step_loop")
    at_once = play(dialogues(), policy)

    assert at_once.outcome["delay"] == 0
    assert episode.outcome["delay"] > 0.5
    assert len(episode.turns) < len(at_once.turns)
    assert len(episode.series("rac")) == len(at_once.series("rac"))


# -- tasks and data ----------------------------------------------------------------------------------------------------


def test_every_turn_of_every_dialogue_is_a_task_once() -> None:
    environment = dialogues(unit="turn", dialogues=5)
    talks = generated(DOMAIN, "train", 7, 5, environment.settings)
    asked = sum(len(asked_turns(one.dialogue, "spoken")) for one in talks)

    tasks = environment.tasks(asked, 3, "train")
    episodes = [play(environment, Answering(lambda _: ""), index=task.index, split="train") for task in tasks]

    assert len({(episode.task.user, episode.turns[0].round) for episode in episodes}) == asked


def test_dialogues_come_from_a_folder_with_times_and_those_of_another_catalog_are_refused(tmp_path: Path) -> None:
    def with_times(dialogue: Dialogue) -> Dialogue:
        turns = tuple(replace(turn, time=10.0 * place) for place, turn in enumerate(dialogue.turns))
        return replace(dialogue, turns=turns)

    examples = [Example(with_times(one.dialogue), one.annotation) for one in generated(DOMAIN, "test", 7, 3)]
    for name in ("own", "other"):
        write_data(tmp_path / name, examples, DOMAIN.catalog, {})

    episode = play(dialogues(data=str(tmp_path / "own")), Answering(lambda _: "nothing"))

    assert [turn.started for turn in episode.turns][:2] == [0, 10]
    assert episode.task.user in {one.id for one in examples}

    manifest = tmp_path / "other" / "MANIFEST.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "catalog": "0123456789abcdef"}))
    with pytest.raises(UsageError) as refused:
        dialogues(data=str(tmp_path / "other")).tasks(1, 7, "test")

    assert all(digest[:12] in str(refused.value) for digest in ("0123456789abcdef", DOMAIN.catalog.digest))


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"style": "asg"}, "unit"), ({"silence": -1}, "silence"), ({"transitions": ["pending->done"]}, "pending->done")],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        HOST.create("environment", "proactive", settings)


# -- the action state graph against Algorithm 1 of the paper, in ten lines of its own ----------------------------------

NAMES = ("send-link", "make-password", "notify-team")
PAIRS = [f"{before}->{after}" for before, after in product(STATUSES, STATUSES)]
EVENT = st.tuples(st.booleans(), st.sampled_from(NAMES), st.sampled_from(STATUSES))


def algorithm_1(events: list[tuple[bool, str, str]], allowed: set[str]) -> list[tuple[str, str]]:
    states: list[tuple[str, str]] = []
    for is_observed, name, status in events:
        place = next((place for place, (known, _) in enumerate(states) if known == name), None)
        if place is None:
            states.append((name, status))
        elif is_observed or f"{states[place][1]}->{status}" in allowed:
            states[place] = (name, status)
    return states


@given(st.lists(EVENT, max_size=12), st.sets(st.sampled_from(PAIRS), min_size=1))
def test_states_follow_algorithm_1(events: list[tuple[bool, str, str]], allowed: set[str]) -> None:
    states = ActionStates(allowed)

    for is_observed, name, status in events:
        one = Opportunity(name, status)  # type: ignore[arg-type]
        states.trigger(one) if is_observed else states.predict([one])

    assert [(one.name, one.status) for one in states] == algorithm_1(events, allowed)


def test_missing_inputs_are_those_of_pending_actions_and_a_trigger_has_the_values_it_was_used_with() -> None:
    states = ActionStates()
    link = Opportunity("send-link", "pending", (Input("email"), Input("phone", True, "5")))

    states.predict([link, Opportunity("notify-team", "dismissed", (Input("team"),))])
    found = observed(Trigger(5, "Pull up account", {"customer_name": "Joyce Wu"}), DOMAIN.catalog)

    assert states.missing() == ["email"]
    assert found.status == "triggered"
    assert found.inputs["customer_name"].value == "Joyce Wu"
