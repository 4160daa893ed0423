"""The settings of a preference model: every weight of the method, and every part of it that can be turned off.

The one rule: a term of the objective with the weight 0 isn't computed at all, so that an ablation is a setting and
costs nothing.

    >>> PreferenceSettings(dimensions=32).layers
    2
    >>> PreferenceSettings.ablation("C6").branches
    'conformity'
    >>> PreferenceSettings.from_mapping({"dimension": 32})
    Traceback (most recent call last):
    ...
    agentfw_rewardmodels.errors.BadInputError: there is no setting "dimension"

The parpo-psgm paper's own values (six coefficients, temperatures, sizes) are lost with its formulas; these are ours,
and docs/results/preference-model.md says how they were found.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

from agentfw_rewardmodels.errors import BadInputError

__all__ = ["PreferenceSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceSettings:
    """How a model is trained and how it scores."""

    dimensions: int = 64
    """Of users and items in the collaborative space."""
    layers: int = 2
    """How far liking travels over the graph of users and items; 0 is plain matrix factorisation."""
    branches: Literal["both", "interest", "conformity"] = "both"
    """Which branches there are: C6 of the paper has no interest branch, C7 no conformity branch."""
    popularity: Literal["linear", "log"] = "linear"
    """How likes become an item's popularity, 0 to 1: as they are, or by their logarithm."""
    popularity_weighting: bool = True
    """Whether the interest branch minds unpopular items more and the conformity branch popular ones. Without it the two
    learn the same and can't be told apart."""

    ranking_loss: float = 1.0
    """Liked items before others: BPR, formula 33."""
    interest_loss: float = 0.1
    """Contrast of the interest branch, formula 28."""
    conformity_loss: float = 0.1
    """Contrast of the conformity branch, formula 30."""
    orthogonality_loss: float = 0.01
    """The branches say different things, formula 34."""
    user_loss: float = 0.05
    """Users differ from one another, formula 36."""
    action_loss: float = 0.1
    """Texts come to lie where their items are, formula 41; only with item texts."""
    decay: float = 1e-4
    """Of the embeddings in a batch: the last term of formula 37."""
    temperature: float = 0.2
    """Of the contrasts: the lower, the more the hardest comparison counts."""

    epochs: int = 300
    """At most so many; early stopping ends most trainings sooner."""
    patience: int = 25
    """Training ends after so many looks at the validation split without a better one."""
    look_every: int = 2
    """Epochs between two such looks."""
    validation: float = 0.1
    """Share of the interactions held out for that, of users who have enough; 0 trains all `epochs`."""
    batch: int = 2048
    """Interactions a step."""
    learning_rate: float = 3e-3
    neighbours: int = 0
    """For graphs that are too big to pass whole through every step: so many neighbours of a node are drawn instead. 0
    takes all."""

    profile_epochs: int = 60
    """Of stage 1, which learns to merge the views of a profile."""
    view_dropout: float = 0.2
    """Chance that a view is left out of one of the two looks at a profile which are held to be the same user."""
    profile_temperature: float = 0.1
    reconstruction_loss: float = 0.5
    """The merged profile still says what each view said, formula 23."""

    rank_by: Literal["fused", "interest", "conformity"] = "fused"
    """What items are ranked by, also at the looks at the validation split: `fused` is what will be liked, `interest`
    what is liked for its own sake."""
    nearest: int = 10
    """How many known items explain an action text, formula 43."""
    nearest_temperature: float = 0.1
    collaborative_share: float = 0.5
    """How much of an action's place comes from those items, and how much from its own text, formula 45."""
    interest_weight: float = 0.7
    """In the reward, formula 56."""
    conformity_weight: float = 0.3

    seed: int = 7
    """Of everything random; on one machine with one number of threads one seed is one model."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where training runs; scoring is plain numpy and needs no torch."""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            _check_kind(name, getattr(self, name), kind)
        for name in ("dimensions", "epochs", "patience", "look_every", "batch", "nearest", "profile_epochs"):
            if getattr(self, name) < 1:
                raise _wrong(name, getattr(self, name), "one or more")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "seed" and isinstance(value, (int, float)) and value < 0:
                raise _wrong(field.name, value, "zero or more")
        for name in ("temperature", "profile_temperature", "nearest_temperature", "learning_rate"):
            if getattr(self, name) == 0:
                raise _wrong(name, 0, "above zero")
        for name in ("validation", "view_dropout"):
            if getattr(self, name) >= 1:
                raise _wrong(name, getattr(self, name), "a share below 1")
        if self.branches != "both" and self.rank_by not in ("fused", self.branches):
            raise _wrong("rank_by", self.rank_by, f'"fused" or "{self.branches}", the only branch there is')
        if self.collaborative_share > 1:
            raise _wrong("collaborative_share", self.collaborative_share, "a share, at most 1")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> PreferenceSettings:
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                fix = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(known)}"
                raise BadInputError(f'there is no setting "{name}"', fix=fix)
        return cls(**values)

    @classmethod
    def ablation(cls, name: str) -> PreferenceSettings:
        """The settings of one of the paper's ablations: C6 has no interest branch, C7 no conformity branch.

        C5 has no preference model at all, and so no settings of one.
        """
        try:
            return {"C6": cls(branches="conformity"), "C7": cls(branches="interest")}[name]
        except KeyError:
            raise BadInputError(f'no ablation is called "{name}"', fix="known: C6, C7") from None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _check_kind(name: str, value: object, kind: Any) -> None:
    if choices := get_args(kind):
        if value not in choices:
            raise _wrong(name, value, f"one of {', '.join(choices)}")
    elif kind is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise _wrong(name, value, "a finite number")
    elif not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _wrong(name, value, "a whole number" if kind is int else "true or false")


def _wrong(name: str, value: object, wanted: str) -> BadInputError:
    return BadInputError(f"{name} can't be {value!r}", fix=f"{name} is {wanted}")
