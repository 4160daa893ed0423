"""Learning from answers that were shown or rated: imitation and KTO. Neither compares samples.

Imitation makes every answer of a demonstration more likely: A = 1 for each turn, and the loss is -A log p.

KTO makes answers that were called good likelier and bad ones less likely, without pairs. A = desirable for each answer
of an episode with a reward above 0, -undesirable below 0; with a reward of 0 it was not rated. The loss is the mean
over answers of

    |A| (1 - sigmoid(beta sign(A) (R - z)))

R = log p(answer) - log p_ref(answer) is how much likelier the answer is than in the reference policy, which is what
training started from. The baseline z is the KL divergence from the reference, estimated on each prompt of a minibatch
with the answer to the next one, and never below 0. An answer teaches most where R is near z, and hardly anything once
it is far on its right side.

Both leave out an answer that was interrupted, cut off at its maximum length or not understood.

    agentfw train --from RUN --optimizer kto --set optimizer.undesirable=3     # three times as many are good as bad
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from agentfw import Optimizer, Settings
from agentfw.optimizer import Advantage, Loss, Scored

from ..learners.losses import Figures, Terms, TokenLoss
from .relative import check, spoken

if TYPE_CHECKING:
    import torch

    from ..learners.lessons import Lesson


class ImitationSettings(Settings):
    least: float | None = Field(None, description="Minimum reward of an episode to learn from. Default: all episodes.")


class Imitation(Optimizer):
    """The same advantage for every whole answer."""

    def __init__(self, settings: ImitationSettings) -> None:
        self.settings = settings
        self._figures: dict[str, float] = {}

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        check(groups)
        shown = [scored for group in groups for scored in group]
        least = self.settings.least
        kept = [scored for scored in shown if least is None or scored.reward >= least]
        answers = [(scored.episode.id, turn) for scored in kept for turn in spoken(scored.episode)]
        whole = [(name, turn) for name, turn in answers if turn.finish == "stop" and not turn.failures]
        self._figures = {
            "demonstrations": float(len(kept)),
            "left_out": float(len(shown) - len(kept)),
            "answers_left_out": float(len(answers) - len(whole)),
        }
        return [Advantage(name, turn.index, 1.0) for name, turn in whole]

    def loss(self) -> Loss:
        return Loss(f"{__name__}:Likelihood", sampled=False)

    def metrics(self) -> Mapping[str, float]:
        return dict(self._figures)


class Likelihood(TokenLoss):
    """The negative log likelihood of each token, weighed by its advantage."""

    def policy_loss(self, terms: Terms, figures: Figures) -> torch.Tensor:
        return -(terms.weights * terms.advantages * terms.logprobs).sum()


class KTOSettings(Settings):
    beta: float = Field(
        0.1, gt=0, description="How fast an answer stops to teach as it departs from the reference. Lower is farther."
    )
    desirable: float = Field(1.0, gt=0, description="Weight of good answers.")
    undesirable: float = Field(
        1.0, gt=0, description="Weight of bad answers. Good and bad ones should weigh about the same in sum."
    )


class KTO(Optimizer):
    """A positive advantage for good answers, a negative one for bad answers."""

    def __init__(self, settings: KTOSettings) -> None:
        self.settings = settings
        self._figures: dict[str, float] = {}

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        check(groups)
        rated = [
            (scored, turn) for group in groups for scored in group if scored.reward for turn in spoken(scored.episode)
        ]
        whole = [(scored, turn) for scored, turn in rated if turn.finish == "stop" and not turn.failures]
        good = sum(scored.reward > 0 for scored, _ in whole)
        self._figures = {
            "answers_good": float(good),
            "answers_bad": float(len(whole) - good),
            "answers_left_out": float(len(rated) - len(whole)),
            "episodes_unrated": float(sum(not scored.reward for group in groups for scored in group)),
        }
        weights = self.settings.desirable, -self.settings.undesirable
        return [Advantage(scored.episode.id, turn.index, weights[scored.reward < 0]) for scored, turn in whole]

    def loss(self) -> Loss:
        settings = {"beta": self.settings.beta}
        return Loss(f"{__name__}:KTOLoss", sampled=False, aggregation="sequence_mean", settings=settings)

    def metrics(self) -> Mapping[str, float]:
        return dict(self._figures)


class KTOLoss(TokenLoss):
    """How far each answer is from its right side of the baseline."""

    needs_reference = True

    def compared_with(self, lessons: Sequence[Lesson]) -> Sequence[Lesson]:
        """Each prompt with the answer to the next one, where that is another prompt."""
        return [
            replace(lesson, tokens=lesson.tokens._replace(sampled=other.tokens.sampled), sampler=())
            for lesson, other in zip(lessons, [*lessons[1:], *lessons[:1]], strict=True)
            if tuple(lesson.tokens.prompt) != tuple(other.tokens.prompt)
        ]

    def baseline(self, log_ratios: Sequence[float]) -> float:
        return max(0.0, sum(log_ratios) / max(1, len(log_ratios)))

    def policy_loss(self, terms: Terms, figures: Figures) -> torch.Tensor:
        assert terms.base is not None
        assert terms.baseline is not None
        weights = terms.by_turn(terms.weights)
        advantages = terms.by_turn(terms.weights * terms.advantages) / weights
        ratio = terms.by_turn(terms.logprobs - terms.base)
        for name, chosen in (("log_ratio_good", advantages > 0), ("log_ratio_bad", advantages < 0)):
            if bool(chosen.any()):
                figures.add(name, ratio.detach()[chosen])
        figures.add("baseline", terms.baseline)
        value = (self.loss.settings["beta"] * advantages.sign() * (ratio - terms.baseline)).sigmoid()
        return (weights * advantages.abs() * (1 - value)).sum()
