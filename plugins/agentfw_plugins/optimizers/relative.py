"""What all optimizers that compare samples have in common: the settings of their loss, the input check, the figures.

An algorithm is its advantages and the values of its loss, so every optimizer has the same loss settings with defaults
of its own. A batch is checked before anything that the optimizer remembers changes.

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

from agentfw import Optimizer, Settings
from agentfw.optimizer import Advantage, Loss, Scored

from .arithmetic import alike, mean
from .attribution import check

__all__ = ["Aggregation", "ClipHigh", "ClipLow", "Kl", "Length", "LossSettings", "Ratio", "RatioCap", "Relative"]

ClipLow = Annotated[float, Field(ge=0, description="Lower clipping range of the importance ratio.")]
ClipHigh = Annotated[float, Field(ge=0, description="Upper clipping range of the importance ratio.")]
Ratio = Annotated[
    Literal["token", "sequence"],
    Field(description="Importance ratio of each token, or the geometric mean over the tokens of a turn."),
]
RatioCap = Annotated[
    float | None, Field(gt=0, description="Maximum importance ratio, also where the advantage is negative.")
]
Aggregation = Annotated[
    Literal["token_mean", "sequence_mean", "episode_mean", "token_sum"],
    Field(
        description="How tokens are averaged: over all tokens of the batch, over turns, over episodes, "
        "or as a sum per episode that is divided by `length`."
    ),
]
Length = Annotated[
    int | None,
    Field(ge=1, description="Constant that token_sum divides by, such as the maximum tokens of an episode."),
]
Kl = Annotated[float, Field(ge=0, description="Weight of the KL penalty towards the reference policy.")]
ImportanceCap = Annotated[
    float | None,
    Field(
        gt=0,
        description="Maximum importance weight that corrects for a sampler that differs from the trainer. "
        "If set, a large difference is no error. Default: 2 if the policy gives logprobs.",
    ),
]
ImportanceLevel = Annotated[
    Literal["token", "sequence"], Field(description="Importance weight of each token, or of a turn's tokens together.")
]
ImportanceMask = Annotated[
    float | None,
    Field(
        gt=1,
        description="Leave out turns whose mean importance ratio (geometric) is above this, or below its inverse. "
        "Default: 1.5 from the second update on, if the policy gives logprobs.",
    ),
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
    importance_level: ImportanceLevel = "token"
    importance_mask: ImportanceMask = None

    @model_validator(mode="after")
    def _sums_need_a_length(self) -> LossSettings:
        if self.aggregation == "token_sum" and self.length is None:
            raise ValueError("aggregation token_sum needs length, such as the maximum tokens of an episode")
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
            importance_level=self.importance_level,
            importance_mask=self.importance_mask,
        )


Chosen = TypeVar("Chosen", bound=LossSettings)


class Relative(Optimizer, Generic[Chosen]):
    """An optimizer that compares samples with each other. Subclasses implement `compare`."""

    def __init__(self, settings: Chosen) -> None:
        self.settings = settings
        self.figures: dict[str, float] = {}

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        """The advantages of checked groups, none of them empty. May add to the figures.

        A turn without an advantage is left out of the loss. One with an advantage of zero counts in the loss's mean,
        and is computed only where a KL penalty acts on it.
        """
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
