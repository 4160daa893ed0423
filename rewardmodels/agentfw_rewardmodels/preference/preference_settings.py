"""The settings of a preference model.

    >>> PreferenceSettings(dimensions=32).layers
    2
    >>> PreferenceSettings.ablation("C6").branches
    'conformity'
    >>> PreferenceSettings.from_mapping({"dimension": 32})
    Traceback (most recent call last):
    ...
    agentfw_rewardmodels.errors.BadInputError: unknown setting "dimension"

Every weight and optional part of the method is a setting, so ablations are settings too. The parpo-psgm paper's values
(six coefficients, temperatures, sizes) are not known, so the defaults are ours: docs/results/preference-model.md.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from ..errors import BadInputError

Number = Annotated[int, Field(ge=1)]
Weight = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]


class _Refusing(type):
    """Refuses invalid settings with an error of ours."""

    def __call__(cls, *args: Any, **values: Any) -> Any:
        try:
            return super().__call__(*args, **values)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"])) or "rank_by"
            given = values.get(name, first["input"])
            raise BadInputError(f"invalid {name}: {given!r}", fix=f"change {name}: {first['msg']}") from None


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(strict=True, allow_inf_nan=False))
class PreferenceSettings(metaclass=_Refusing):
    """How a model is trained and how it scores."""

    dimensions: Number = 64
    """Dimensions of the collaborative space."""
    layers: Annotated[int, Field(ge=0)] = 2
    """Number of propagation layers over the graph of users and items. 0 is plain matrix factorisation."""
    branches: Literal["both", "interest", "conformity"] = "both"
    """Branches of the model. In the paper, ablation C6 has no interest branch and C7 no conformity branch."""
    popularity: Literal["linear", "log"] = "linear"
    """How an item's popularity grows with its likes: linearly, or with their logarithm."""
    popularity_weighting: bool = True
    """Whether the interest branch gives more weight to unpopular items and the conformity branch to popular ones.
    Without it both learn the same."""

    ranking_loss: Weight = 1.0
    """Weight of BPR, which ranks liked items above others (formula 33)."""
    interest_loss: Weight = 0.1
    """Weight of the contrastive loss of the interest branch (formula 28)."""
    conformity_loss: Weight = 0.1
    """Weight of the contrastive loss of the conformity branch (formula 30)."""
    orthogonality_loss: Weight = 0.01
    """Weight of the orthogonality of the two branches (formula 34)."""
    user_loss: Weight = 0.05
    """Weight of the contrast between users (formula 36)."""
    action_loss: Weight = 0.1
    """Weight of the loss that aligns texts with their items (formula 41). Needs item texts."""
    decay: Weight = 1e-4
    """Weight decay of the embeddings in a batch (last term of formula 37)."""
    temperature: Positive = 0.2
    """Temperature of the contrastive losses. At lower values the hardest comparisons count more."""

    epochs: Number = 300
    """Maximum number of epochs. Early stopping ends most trainings sooner."""
    patience: Number = 25
    """Number of validations without improvement before training stops."""
    look_every: Number = 2
    """Number of epochs between validations."""
    validation: Share = 0.1
    """Share of the interactions held out for validation, from users who have enough. 0 trains for all `epochs`."""
    batch: Number = 2048
    """Batch size in interactions."""
    learning_rate: Positive = 3e-3
    contrast_users: Annotated[int, Field(ge=0)] = 256
    """Number of users of a batch, drawn at random in each step, whose contrastive losses are computed. They cost more
    than everything else in a step. 0 computes them for all users of the batch."""

    profile_epochs: Number = 60
    """Number of epochs of stage 1, which learns to merge the views of a profile."""
    view_dropout: Share = 0.2
    """Probability that a view is dropped from one of the two samples of a profile that are contrasted."""
    profile_temperature: Positive = 0.1
    """Temperature of the contrastive loss of stage 1."""
    reconstruction_loss: Weight = 0.5
    """Weight of reconstructing each view from the merged profile (formula 23)."""

    rank_by: Literal["fused", "interest", "conformity"] = "fused"
    """Ranking method, also used for validation: `fused` ranks by expected likes, `interest` by the user's own taste."""
    nearest: Number = 10
    """Number of known items that an action text is compared with (formula 43)."""
    nearest_temperature: Positive = 0.1
    """Temperature of the weights of these items."""
    collaborative_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of these items in an action's position. The rest comes from its own text (formula 45)."""
    interest_weight: Weight = 0.7
    """Weight of interest in the reward (formula 56)."""
    conformity_weight: Weight = 0.3
    """Weight of conformity in the reward (formula 56)."""

    beyond_average: bool = False
    """Whether interest counts only as far as it goes beyond that of the average user. Even the interest branch learns
    what is popular, so a policy that is rewarded for it learns to choose that."""

    seed: int = 7
    """Random seed. On one machine and number of threads, the same seed gives the same model."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of training. Scoring uses numpy and needs no torch."""

    def __post_init__(self) -> None:
        if self.branches != "both" and self.rank_by not in ("fused", self.branches):
            raise ValueError(f'rank_by must be "fused" or "{self.branches}", the only branch')

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> PreferenceSettings:
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                fix = f'did you mean "{near[0]}"?' if near else f"use one of {', '.join(known)}"
                raise BadInputError(f'unknown setting "{name}"', fix=fix)
        return cls(**values)

    @classmethod
    def ablation(cls, name: str) -> PreferenceSettings:
        """Return the settings of one of the paper's ablations.

        C6 has no interest branch, and C7 no conformity branch. C5 has no preference model, so it has no settings.
        """
        try:
            return {"C6": cls(branches="conformity"), "C7": cls(branches="interest")}[name]
        except KeyError:
            raise BadInputError(f'unknown ablation "{name}"', fix="use C6 or C7") from None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
