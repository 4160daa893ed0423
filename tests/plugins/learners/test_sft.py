"""The learner `sft`: demonstrations become tokens once, as the policy will be prompted, and are learned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentfw.episode import Call, Episode, Message, Task, Turn
from agentfw.errors import SettingsError
from agentfw.learner import Batch
from agentfw.optimizer import Advantage
from agentfw_plugins.learners.settings import SftSettings
from agentfw_plugins.optimizers.imitation import Imitation, ImitationSettings

from .conftest import updated

pytest.importorskip("peft")

from agentfw_plugins.learners.model_learner import SftLearner
from agentfw_plugins.models import Chat

ACTION: dict[str, Any] = {
    "name": "serve",
    "description": "Serve a drink",
    "parameters": {"type": "object", "properties": {}},
}


def demonstration(**turn: Any) -> Episode:
    episode = Episode(Task(0, 7), actions={"": [ACTION]})
    episode.messages = [Message("system", "Serve tea."), Message("user", "a guest comes in")]
    episode.turns = [Turn(0, 0, 1, shown=(0, 1), **turn)]
    return episode


def batch_of(folder: Path, episode: Episode) -> Batch:
    return Batch([episode], [Advantage(episode.id, 0, 1.0)], Imitation(ImitationSettings()).loss(), folder)


@pytest.fixture
def learner(small_model: Path) -> SftLearner:
    return SftLearner(SftSettings(model=str(small_model), learning_rate=1e-2, epochs=8))


def test_a_demonstration_is_learned_as_the_policy_would_be_asked(
    learner: SftLearner, small_model: Path, tmp_path: Path
) -> None:
    from agentfw.request import Action

    episode = demonstration(text="I serve green tea.")
    chat = Chat(small_model)
    prompt, answer = chat.prompt(episode.messages, [Action(**ACTION)]), chat.answer("I serve green tea.")
    before = sum(learner.logprobs(prompt, answer))

    metrics = updated(learner, batch_of(tmp_path / "update", episode)).metrics

    assert metrics["tokens_trained"] == len(answer)
    assert metrics["steps"] == 8
    assert sum(learner.logprobs(prompt, answer)) > before + 5


def test_calls_without_a_text_are_written_as_models_write_them(learner: SftLearner) -> None:
    episode = demonstration(calls=(Call("serve", {"drink": "tea"}),))

    found = learner.tokens(episode, episode.turns[0])

    assert found is not None
    text = learner._chat.text(found.sampled)
    assert text == '<tool_call>{"name": "serve", "arguments": {"drink": "tea"}}</tool_call>'


@pytest.mark.parametrize("finish", ["length", "interrupted"])
def test_an_answer_that_was_cut_off_does_not_teach_to_end_there(learner: SftLearner, finish: str) -> None:
    whole, cut = demonstration(text="I serve green"), demonstration(text="I serve green", finish=finish)

    ended, open_ended = (learner.tokens(each, each.turns[0]) for each in (whole, cut))

    assert ended is not None
    assert open_ended is not None
    assert ended.sampled[-1] in learner._chat.end_ids
    assert open_ended.sampled == ended.sampled[:-1]


def test_a_base_that_nobody_can_talk_to_is_refused_at_once(make_model: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_model(tmp_path / "mute")
    for path in folder.glob("chat_template*"):
        path.unlink()

    with pytest.raises(SettingsError, match="no chat template"):
        SftLearner(SftSettings(model=str(folder)))


def test_a_model_is_made_from_a_plan_alone(make_model: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_model(tmp_path / "plan", weights=False)
    learner = SftLearner(SftSettings(model=str(folder), weights="all", learning_rate=1e-2, epochs=3))

    update = updated(learner, batch_of(tmp_path / "update", demonstration(text="tea")))

    made = SftLearner(SftSettings(model=str(update.adapter)))
    assert made.logprobs((1, 2), (3,)) == pytest.approx(learner.logprobs((1, 2), (3,)), abs=1e-6)
