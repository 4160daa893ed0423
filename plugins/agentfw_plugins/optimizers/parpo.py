"""PARPO: general and personal rewards on two tracks, the personal one against the user's own history.

The one rule: A = w_base A_base + w_personal A_personal. A_base compares within the group; A_personal measures from a
baseline b in units of the user's anchor, a running mean m and variance v of that user's personal rewards, which is
read before the batch changes it.

    min_upper   b = min(group mean, m + margin sqrt(v))     the default: never far above what the user is used to
    max_lower   b = max(group mean, m - margin sqrt(v))
    anchor      b = m
    group       b = group mean

    agentfw train --optimizer parpo
    agentfw train --optimizer parpo --set optimizer.base_weight=0                                  # C2, no base track
    agentfw train --optimizer parpo --set optimizer.personal_weight=0                              # C3, no personal one
    agentfw train --optimizer parpo --set optimizer.baseline=group --set optimizer.scale=group     # C4, no anchor

C1 is the optimizer `grpo`, on the sum. The text at hand lost the paper's equations: baseline and scale are readings of
its prose, and every number here is common practice. An anchor of a few samples is no yardstick: divided by a spread
that is too small by chance, one user's advantages outweigh everybody else's. So an anchor counts after some batches;
its first ones are averaged evenly; its variance is that within groups, where tasks are alike; a single sample's is
taken around the old mean, for around its own there is none; and a user without any spread so far is compared within the
group. `tests/benchmarks/optimizers_bias.py` measures what that brings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal

from pydantic import Field

from agentfw.errors import StorageError
from agentfw.optimizer import Advantage, Scored

from .arithmetic import EPSILON, mean, normalised, spread
from .attribution import of_track, throughout
from .relative import Kl, LossSettings, Relative

__all__ = ["PARPO", "Anchor", "PARPOSettings"]


class PARPOSettings(LossSettings):
    base_weight: float = Field(0.5, ge=0, description="How much the general track counts; the paper's value is lost.")
    personal_weight: float = Field(
        0.5, ge=0, description="How much the personal track counts; the paper's value is lost."
    )
    baseline: Literal["min_upper", "max_lower", "anchor", "group"] = Field(
        "min_upper", description="What personal rewards are measured from; the paper's equation is lost."
    )
    scale: Literal["anchor", "group"] = Field(
        "anchor", description="Whose spread personal rewards are measured in; the paper's equation is lost."
    )
    margin: float = Field(
        1.0, ge=0, description="How many deviations a baseline may lie off the anchor; the paper's value is lost."
    )
    decay: float = Field(
        0.9, ge=0, lt=1, description="How much of an anchor is left after a batch; the paper's value is lost."
    )
    variance: Literal["batch", "around_old_mean", "within_groups"] = Field(
        "within_groups",
        description="Around what an anchor's variance is taken: the mean of the user's batch, the mean so far, or that "
        "of each group, so that tasks of different difficulty don't count as spread. The paper doesn't say.",
    )
    least_spread: float = Field(
        0.01, gt=0, description="No anchor's spread counts as less than this; the paper's value is lost."
    )
    warm_up: int = Field(
        3, ge=1, description="Batches before a user's anchor counts, and not the group; the paper's value is lost."
    )
    kl: Kl = 0.01


@dataclass(frozen=True, slots=True)
class Anchor:
    """What is remembered of one user's personal rewards."""

    mean: float
    variance: float
    updates: int


class PARPO(Relative[PARPOSettings]):
    """Two tracks, and an anchor for each user."""

    def __init__(self, settings: PARPOSettings) -> None:
        super().__init__(settings)
        self.anchors: dict[str, Anchor] = {}

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        found: list[Advantage] = []
        users: dict[str, list[list[float]]] = {}
        for group in groups:
            base = normalised([of_track(scored, "base") for scored in group])
            rewards = [of_track(scored, "personal") for scored in group]
            names = [scored.episode.task.user for scored in group]
            for scored, general, personal in zip(group, base, self._personal(names, rewards), strict=True):
                value = self.settings.base_weight * general + self.settings.personal_weight * personal
                found += throughout(scored, value)
            for name in dict.fromkeys(names):
                own = [reward for reward, other in zip(rewards, names, strict=True) if other == name]
                users.setdefault(name, []).append(own)
        self.figures["users"] = float(len(users))
        self.figures["users_without_anchor"] = float(sum(not self._counts(name) for name in users))
        for name, parts in users.items():
            self.anchors[name] = self._updated(self.anchors.get(name), parts)
        if users:
            anchors = [self.anchors[name] for name in users]
            self.figures["anchor_mean"] = mean([anchor.mean for anchor in anchors])
            self.figures["anchor_spread"] = mean([math.sqrt(anchor.variance) for anchor in anchors])
        return found

    def _personal(self, names: Sequence[str], rewards: Sequence[float]) -> list[float]:
        """The personal advantages of one group."""
        middle, unit, relative = mean(rewards), spread(rewards) + EPSILON, normalised(rewards)
        values: list[float] = []
        for place, (name, reward) in enumerate(zip(names, rewards, strict=True)):
            if not self._counts(name):
                values.append(relative[place])
                continue
            anchor = self.anchors[name]
            deviation = math.sqrt(anchor.variance)
            scale = unit if self.settings.scale == "group" else max(deviation, self.settings.least_spread)
            values.append((reward - self._baseline(middle, anchor.mean, self.settings.margin * deviation)) / scale)
        return values

    def _baseline(self, middle: float, centre: float, margin: float) -> float:
        if self.settings.baseline == "min_upper":
            return min(middle, centre + margin)
        if self.settings.baseline == "max_lower":
            return max(middle, centre - margin)
        return centre if self.settings.baseline == "anchor" else middle

    def _counts(self, name: str) -> bool:
        anchor = self.anchors.get(name)
        return anchor is not None and anchor.updates >= self.settings.warm_up and anchor.variance > 0

    def _updated(self, anchor: Anchor | None, groups: Sequence[Sequence[float]]) -> Anchor:
        rewards = [reward for group in groups for reward in group]
        middle, several = mean(rewards), [group for group in groups if len(group) > 1]
        if self.settings.variance == "within_groups" and several:
            # By n - 1, as the group's own spread: else few samples would make every user seem too narrow.
            variance = mean([spread(group) ** 2 for group in several])
        elif anchor is not None and (self.settings.variance == "around_old_mean" or len(rewards) == 1):
            variance = mean([(reward - anchor.mean) ** 2 for reward in rewards])
        else:
            variance = mean([(reward - middle) ** 2 for reward in rewards])
        if anchor is None:
            return Anchor(middle, variance, 1)
        # As many batches as the decay would remember are averaged first: else the very first would weigh for long.
        old = min(self.settings.decay, anchor.updates / (anchor.updates + 1))
        new = 1.0 - old
        return Anchor(old * anchor.mean + new * middle, old * anchor.variance + new * variance, anchor.updates + 1)

    def state(self) -> dict[str, Any]:
        return {"anchors": {name: list(astuple(anchor)) for name, anchor in self.anchors.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        try:
            self.anchors = {
                str(name): Anchor(float(middle), float(variance), int(updates))
                for name, (middle, variance, updates) in state["anchors"].items()
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StorageError(
                f"these are no user anchors of parpo: {error!r}",
                fix="was the checkpoint written with another optimizer, or by another version?",
            ) from error
