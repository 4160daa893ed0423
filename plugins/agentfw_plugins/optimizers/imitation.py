"""Learning from answers that were shown or rated: imitation, KTO and DPO.

Imitation makes every answer of a demonstration more likely: A = 1 for each turn, and the loss is -A log p.

KTO makes answers that were called good likelier and bad ones less likely, without pairs. A = desirable for each answer
of an episode with a reward above 0, -undesirable below 0; with a reward of 0 it was not rated. The loss is the mean
over answers of

    |A| (1 - sigmoid(beta sign(A) (R - z)))

R = log p(answer) - log p_ref(answer), with the reference policy that training started from. The baseline z is the KL
divergence from the reference, estimated on each prompt of a minibatch with the answer to the next one, and never below
0. An answer teaches most where R is near z, and hardly anything once it is far on its right side.

DPO makes the better of two answers to the same request likelier than the other: the best and the worst answer of a
group or, where turns differ in what they were shown, of those that were shown the same. The loss is the mean over pairs

    -log sigmoid(beta (R_better - R_worse))

All leave out an answer that was interrupted, cut off at its maximum length or not understood.

    agentfw train --from RUN --optimizer kto --set optimizer.undesirable=3     # three times as many are good as bad
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from agentfw import Settings, Turn
from agentfw.errors import UsageError
from agentfw.optimizer import Advantage, Loss, Scored

from ..learners.losses import Figures, Terms, TokenLoss
from .relative import BatchOptimizer, by_turn, rated, returns_to_go, spoken

if TYPE_CHECKING:
    import torch

    from ..learners.lessons import Lesson


def is_whole(turn: Turn) -> bool:
    """Whether an answer ended by itself and was understood."""
    return turn.finish == "stop" and not turn.failures


class ImitationSettings(Settings):
    least: float | None = Field(None, description="Minimum reward of an episode to learn from. Default: all episodes.")


class Imitation(BatchOptimizer[ImitationSettings]):
    """The same advantage for every whole answer."""

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        shown = [scored for group in groups for scored in group]
        least = self.settings.least
        kept = [scored for scored in shown if least is None or scored.reward >= least]
        answers = [(scored.episode.id, turn) for scored in kept for turn in spoken(scored.episode)]
        whole = [(name, turn) for name, turn in answers if is_whole(turn)]
        self.figures = {
            "demonstrations": float(len(kept)),
            "left_out": float(len(shown) - len(kept)),
            "answers_left_out": float(len(answers) - len(whole)),
        }
        return [Advantage(name, turn.index, 1.0) for name, turn in whole]

    def loss(self) -> Loss:
        return Loss(f"{__name__}:Likelihood", sampled=False)


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


class KTO(BatchOptimizer[KTOSettings]):
    """A positive advantage for good answers, a negative one for bad answers."""

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        rated = [
            (scored, turn) for group in groups for scored in group if scored.reward for turn in spoken(scored.episode)
        ]
        whole = [(scored, turn) for scored, turn in rated if is_whole(turn)]
        good = sum(scored.reward > 0 for scored, _ in whole)
        self.figures = {
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


class KTOLoss(TokenLoss):
    """How far each answer is from its right side of the baseline."""

    needs_reference = has_baselines = True

    def compared_with(self, lessons: Sequence[Lesson]) -> Sequence[Lesson]:
        """Each prompt with the answer to the next one, where that is another prompt."""
        return [
            replace(lesson, tokens=lesson.tokens._replace(sampled=other.tokens.sampled), sampler=())
            for lesson, other in zip(lessons, [*lessons[1:], *lessons[:1]], strict=True)
            if tuple(lesson.tokens.prompt) != tuple(other.tokens.prompt)
        ]

    def baselines(self, lessons: Sequence[Lesson], log_ratios: Sequence[float]) -> Sequence[float]:
        return [max(0.0, sum(log_ratios) / max(1, len(log_ratios)))] * len(lessons)

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


class DPOSettings(Settings):
    beta: float = Field(
        0.1, gt=0, description="How fast a pair stops to teach as it departs from the reference. Lower is farther."
    )


class DPO(BatchOptimizer[DPOSettings]):
    """An advantage of 1 for the best answer to what was shown, and of -1 for the worst."""

    compares_same_requests = True

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        found: list[Advantage] = []
        unpaired = left_out = 0
        for group in rated(groups):
            answers: dict[tuple[object, ...], list[tuple[float, str, int]]] = {}
            for scored in group:
                # What came after an answer says how good it was, as far as it isn't known better.
                rewards = returns_to_go(by_turn(scored), 1.0)
                for turn in spoken(scored.episode):
                    left_out += not is_whole(turn)
                    if is_whole(turn):
                        shown = tuple(scored.episode.messages[place] for place in turn.shown)
                        key = tuple((one.role, one.content) for one in shown)
                        answers.setdefault(key, []).append((rewards[turn.index], scored.episode.id, turn.index))
            for some in answers.values():
                best, worst = max(some), min(some)
                if best[0] > worst[0]:
                    found += [Advantage(*best[1:], 1.0), Advantage(*worst[1:], -1.0)]
                else:
                    unpaired += 1
        self.figures = {"pairs": len(found) / 2, "unpaired": float(unpaired), "answers_left_out": float(left_out)}
        return found

    def loss(self) -> Loss:
        settings = {"beta": self.settings.beta}
        return Loss(f"{__name__}:DPOLoss", sampled=False, aggregation="sequence_mean", settings=settings)


class DPOLoss(TokenLoss):
    """How far the better answer of a pair is above the worse one.

    The two may be computed in different pieces. Each contributes its side of the pair's gradient, for which the margin
    R_better - R_worse is known before the step.
    """

    has_baselines = True

    def compared_with(self, lessons: Sequence[Lesson]) -> Sequence[Lesson]:
        return lessons

    def baselines(self, lessons: Sequence[Lesson], log_ratios: Sequence[float]) -> Sequence[float]:
        """The margin of the pair of each lesson: the first better answer to a prompt with the first worse one."""
        sides: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}
        for place, lesson in enumerate(lessons):
            sides.setdefault(tuple(lesson.tokens.prompt), ([], []))[lesson.advantage < 0].append(place)
        margins = [0.0] * len(lessons)
        for better, worse in sides.values():
            if len(better) != len(worse):
                alone = lessons[max(better, worse, key=len)[-1]]
                raise UsageError(
                    f"turn {alone.turn} of episode {alone.episode} has no other answer to its prompt in its minibatch",
                    fix="set learner.minibatches=1; and give the same prompt to both answers of a pair",
                )
            for one, other in zip(better, worse, strict=True):
                margins[one] = margins[other] = log_ratios[one] - log_ratios[other]
        return margins

    def policy_loss(self, terms: Terms, figures: Figures) -> torch.Tensor:
        from torch.nn.functional import softplus

        assert terms.baseline is not None
        weights = terms.by_turn(terms.weights)
        sides = (terms.by_turn(terms.weights * terms.advantages) / weights).sign()
        figures.add("margin", terms.baseline)
        figures.add("pairs_right", (terms.baseline > 0).float())
        now = terms.by_turn(terms.logprobs)
        away = self.loss.settings["beta"] * (terms.baseline + sides * (now - now.detach()))
        value = softplus(-away)
        # A turn is half of a pair, but its gradient isn't half of that of its side.
        return (weights * (2 * value - value.detach())).sum()
