"""What is learned from: scored episodes in a line, batches of tokens, and learners of a small model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import agentfw, install

from agentfw import Learner, Session
from agentfw.episode import Episode, Message, Task, Turn
from agentfw.optimizer import Advantage, Optimizer, Scored
from agentfw.scores import Score
from agentfw.testing import fresh_host
from agentfw_plugins.learners.lessons import Lesson
from agentfw_plugins.learners.token_tree import TurnTokens
from agentfw_plugins.optimizers.distillation import HintLoss
from agentfw_plugins.optimizers.imitation import DPOLoss

__all__ = ["agentfw", "install"]


class Make:
    """What the examples are made of. Samples are numbered by their place in the group."""

    def turn(self, index: int, round: int = 0, shown: tuple[int, ...] = ()) -> Turn:
        return Turn(index, index, index + 1, round=round, shown=shown, text="well", count=3, token_ids=(1, 2, 3))

    def episode(self, sample: int = 0, rounds: Sequence[int] = (0,), *, index: int = 0, user: str = "ada") -> Episode:
        """An episode with one turn for each entry of `rounds`, in that round."""
        turns = [self.turn(place, one) for place, one in enumerate(rounds)]
        return Episode(Task(index, 7, user=user, sample=sample), rounds=max(rounds, default=0), turns=turns)

    def rewarded(self, rewards: Sequence[float], *, index: int = 0, turns: int = 1) -> list[Scored]:
        """A group with these rewards and no scores."""
        return [
            Scored(self.episode(place, [0] * turns, index=index), (), reward) for place, reward in enumerate(rewards)
        ]

    def tracked(
        self, base: Sequence[float], personal: Sequence[float], *, index: int = 0, user: str = "ada"
    ) -> list[Scored]:
        """A group of one-turn episodes with a reward on each track."""
        group = []
        for place, (general, own) in enumerate(zip(base, personal, strict=True)):
            played = self.episode(place, index=index, user=user)
            scores = (Score(played.id, "quality", general), Score(played.id, "preference", own, "personal"))
            group.append(Scored(played, scores, general + own))
        return group

    def by_rounds(self, *samples: Sequence[float]) -> list[Scored]:
        """A group of episodes with one turn and one score a round."""
        group = []
        for place, values in enumerate(samples):
            played = self.episode(place, range(1, len(values) + 1))
            scores = tuple(Score(played.id, "right", value, round=number) for number, value in enumerate(values, 1))
            group.append(Scored(played, scores, sum(values)))
        return group

    def conversation(self, sample: int, *shown: str) -> Episode:
        """An episode in which each turn was shown all that came before and one more message."""
        played = self.episode(sample, [0] * len(shown))
        for one, text in zip(played.turns, shown, strict=True):
            played.messages.append(Message("user", text))
            one.shown = tuple(range(len(played.messages)))
            played.messages.append(Message("assistant", "well"))
        return played


make = Make()


HOST = fresh_host(builtins=True, strict=False)


def hinted(hint: Optimizer, episode: Episode, turn: Turn) -> list[str]:
    """What a teacher is shown of a conversation, with the hint in it."""
    shown = HintLoss(hint.loss()).hinted(episode, turn)
    assert shown is not None
    return [one.content for one in shown]


def margins(sides: Sequence[tuple[int, float]], better: Sequence[float]) -> Sequence[float]:
    """What DPO compares: of answers to these prompts, on these sides, so much likelier than by the reference."""
    lessons = [Lesson(TurnTokens((prompt,), (3,)), side, (), 0, at) for at, (prompt, side) in enumerate(sides)]
    return DPOLoss(chosen("dpo").loss()).baselines(lessons, list(better))


def chosen(name: str, settings: Mapping[str, object] | None = None) -> Optimizer:
    """An optimizer as a training gets it: by its name, with settings."""
    made = HOST.create("optimizer", name, settings or {})
    assert isinstance(made, Optimizer)
    return made


def values(advantages: Sequence[Advantage]) -> list[float]:
    return [advantage.value for advantage in advantages]


def table(advantages: Sequence[Advantage]) -> dict[tuple[str, int], float]:
    """Advantages by episode and turn."""
    return {(one.episode, one.turn): one.value for one in advantages}


@pytest.fixture
def learner_of(small_model: Path) -> Callable[..., Learner]:
    """A learner of the small model as a training gets it: by its name, with settings."""

    def make(name: str = "lora", **settings: Any) -> Learner:
        made = HOST.create("learner", name, {"model": str(small_model), "device": "cpu", **settings})
        assert isinstance(made, Learner)
        return made

    return make


@pytest.fixture
def note_in_view() -> Callable[[Path, Session, str], None]:
    """Notes something of the first answer of a session, as the page of `agentfw view` does."""
    from agentfw_plugins.view.annotations import Target, annotate

    def note(run: Path, session: Session, text: str) -> None:
        annotate(run, Target("", session.episode.id, 0, session.episode.task.user), "note", text)

    return note
