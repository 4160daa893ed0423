"""Learning from a teacher that says of each token how likely it would have been: on-policy distillation, and hints.

    agentfw train tasks.jsonl --model small --optimizer distillation --teacher transformers --set teacher.model=large
    agentfw train --from RUN --optimizer hint

The student plays, and each of its tokens has a signal of its own, log q(token) - log p(token), at most `bound` in size,
with p the student's probability before the step and q the teacher's. Its gradient is that of the reverse KL divergence
KL(p | q), estimated token by token on what was sampled: what later tokens earn isn't credited to earlier ones (Gu et
al. 2024, MiniLLM; Agarwal et al. 2024, GKD; Thinking Machines 2025, "On-policy distillation").

For `distillation` the teacher is another policy, with the same tokens. For `hint` it is the model itself, shown what
somebody said of its answer (Shenfeld et al. 2026, SDFT; Huebotter et al. 2026, SDPO). The answers are recorded ones, so
the signal is computed anew for each step. Only the newest words on an answer count: an earlier hint may have asked for
the opposite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from agentfw import Episode, Message, Settings, Turn
from agentfw.optimizer import Advantage, Loss, Scored

from ..learners.losses import Clipped, Figures, Terms
from ..rewards.measured import Words, words_of
from .imitation import is_whole
from .relative import Aggregation, BatchOptimizer, LossSettings, spoken, throughout

if TYPE_CHECKING:
    import torch

Bound = Annotated[float, Field(gt=0, description="Maximum size of the signal of a token, in nats.")]

_COMMENTED, _CORRECTED = "Feedback on an earlier answer: {}", "A better answer to this: {}"
"""How the model is shown what was said. Small models take longer explanations for a part of the question."""


class DistillationSettings(LossSettings):
    bound: Bound = 5.0
    aggregation: Aggregation = "token_mean"


class Distillation(BatchOptimizer[DistillationSettings]):
    """The same advantage for every answer; the teacher says how much each token gets of it."""

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        return throughout(groups, [[1.0] * len(group) for group in groups])

    def loss(self) -> Loss:
        settings = {"bound": self.settings.bound}
        return replace(self.settings.loss(), name=f"{__name__}:ReverseKL", teacher=True, settings=settings)


class ReverseKL(Clipped):
    """The policy gradient, with the signal of each token in place of an advantage of the turn."""

    def gain(self, ratio: torch.Tensor, terms: Terms, figures: Figures) -> torch.Tensor:
        assert terms.teacher is not None
        signal, bound = terms.teacher - terms.before, self.loss.settings["bound"]
        figures.add("reverse_kl", -signal)
        figures.add("signal_bounded", (signal.abs() > bound).float())
        signals = terms.advantages * signal.clamp(-bound, bound)
        return super().gain(ratio, replace(terms, advantages=signals), figures)


class HintSettings(Settings):
    bound: Bound = 5.0
    teacher: Literal["frozen", "moving"] = Field(
        "frozen",
        description="Who is shown the hint: frozen, the model that training started from (`learner.reference`), or "
        "moving, the model as it is at each update, which goes further and is less stable.",
    )


class Hint(BatchOptimizer[HintSettings]):
    """The same advantage for every answer that somebody said something about."""

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        episodes = [scored.episode for group in groups for scored in group]
        hinted = [(one.id, turn) for one in episodes for turn in spoken(one) if any(newest_words(one, turn))]
        whole = [(name, turn) for name, turn in hinted if is_whole(turn)]
        self.figures = {"hints": float(len(whole)), "answers_left_out": float(len(hinted) - len(whole))}
        return [Advantage(name, turn.index, 1.0) for name, turn in whole]

    def loss(self) -> Loss:
        settings = {"bound": self.settings.bound, "moving": float(self.settings.teacher == "moving")}
        return Loss(f"{__name__}:HintLoss", sampled=False, aggregation="sequence_mean", settings=settings)


def newest_words(episode: Episode, turn: Turn) -> Words:
    said = [words_of(event) for event in episode.events if event.data.get("turn") in (None, turn.index)]
    return next(filter(any, reversed(said)), Words())


class HintLoss(ReverseKL):
    """The signal of the model itself, shown the hint."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss)
        self.teaches_itself = "moving" if loss.settings["moving"] else "frozen"

    def hinted(self, episode: Episode, turn: Turn) -> Sequence[Message] | None:
        """The messages of the turn. The hint is at the end of what the user said last."""
        words = newest_words(episode, turn)
        told = [form.format(said) for form, said in zip((_COMMENTED, _CORRECTED), words, strict=True) if said]
        shown = [episode.messages[place] for place in turn.shown]
        last = max((place for place, one in enumerate(shown) if one.role == "user"), default=None)
        if not told or last is None:
            return None
        shown[last] = replace(shown[last], content="\n\n".join([shown[last].content, *told]))
        return shown
