"""What all optimizers that compare samples have in common: the settings of their loss, the check, the figures.

The one rule: an algorithm is its advantages and its loss's values, so each has the same settings of the loss with
defaults of its own. What is wrong with a batch is told before anything that the optimizer remembers has changed.

    class CentredSettings(LossSettings):
        clip_high: ClipHigh = 0.28

    class Centred(Relative[CentredSettings]):
        def compare(self, groups):
            ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field, model_validator

from agentfw import Settings
from agentfw.optimizer import Advantage, Loss, Optimizer, Scored

from .arithmetic import alike, mean
from .attribution import check

__all__ = ["Aggregation", "ClipHigh", "ClipLow", "Kl", "Length", "LossSettings", "Ratio", "RatioCap", "Relative"]

ClipLow = Annotated[float, Field(ge=0, description="A ratio below 1 - clip_low earns nothing more.")]
ClipHigh = Annotated[float, Field(ge=0, description="A ratio above 1 + clip_high earns nothing more.")]
Ratio = Annotated[
    Literal["token", "sequence"],
    Field(description="The ratio to the policy that sampled: of each token, or one of a whole turn."),
]
RatioCap = Annotated[
    float | None, Field(gt=0, description="No ratio counts for more than this, also where nothing is clipped.")
]
Aggregation = Annotated[
    Literal["token_mean", "sequence_mean", "token_sum"],
    Field(description="All tokens alike; each turn alike, by the mean of its tokens; or sums of tokens by `length`."),
]
Length = Annotated[
    int | None,
    Field(
        ge=1,
        description="What token_sum divides by: the most tokens of an answer. Only the size of a step hangs on it.",
    ),
]
Kl = Annotated[float, Field(ge=0, description="What the distance to the policy without adapter costs, in the loss.")]
ImportanceCap = Annotated[
    float | None,
    Field(gt=0, description="Correct for a sampler that differs from the trainer, by a weight of at most this."),
]


class LossSettings(Settings):
    """The loss that the advantages are for."""

    clip_low: ClipLow = 0.2
    clip_high: ClipHigh = 0.2
    ratio: Ratio = "token"
    ratio_cap: RatioCap = None
    aggregation: Aggregation = "sequence_mean"
    length: Length = None
    kl: Kl = 0.0
    importance_cap: ImportanceCap = None

    @model_validator(mode="after")
    def _sums_need_a_length(self) -> LossSettings:
        if self.aggregation == "token_sum" and self.length is None:
            raise ValueError("aggregation token_sum needs a length to divide by, such as the most tokens of an answer")
        return self

    def loss(self) -> Loss:
        return Loss(
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            ratio=self.ratio,
            ratio_cap=self.ratio_cap,
            aggregation=self.aggregation,
            length=self.length,
            kl=self.kl,
            importance_cap=self.importance_cap,
        )


Chosen = TypeVar("Chosen", bound=LossSettings)


class Relative(Optimizer, Generic[Chosen]):
    """An optimizer that compares samples with each other. `compare` is the one method that it must have."""

    def __init__(self, settings: Chosen) -> None:
        self.settings = settings
        self.figures: dict[str, float] = {}

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        """The advantages of checked groups, none of them empty; may add to the figures."""
        raise NotImplementedError

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        check(groups)
        groups = [group for group in groups if group]
        several = [[scored.reward for scored in group] for group in groups if len(group) > 1]
        self.figures = {
            "groups": float(len(groups)),
            "groups_of_one": float(len(groups) - len(several)),
            "groups_alike": float(sum(map(alike, several))),
        }
        found = self.compare(groups)
        self.figures["advantage_size"] = mean([abs(advantage.value) for advantage in found]) if found else 0.0
        return found

    def loss(self) -> Loss:
        return self.settings.loss()

    def metrics(self) -> Mapping[str, float]:
        return dict(self.figures)
