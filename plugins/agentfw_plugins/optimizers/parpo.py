"""PARPO: separate advantages for shared and personal rewards, the latter relative to each user's own history.

A = base_weight A_base + personal_weight A_personal. A_base compares the base rewards within the group, as GRPO does.
A_personal = (r - b) / s is measured from a baseline b in units of the user's anchor, the running mean m and variance v
of that user's personal rewards. The anchor is read before the batch updates it.

    min_upper   b = min(group mean, m + margin sqrt(v))     the default
    max_lower   b = max(group mean, m - margin sqrt(v))
    anchor      b = m
    group       b = group mean

In a group of one there is no group mean, so that b = m with any of the first three, and no base advantage. With
`base_baseline=running` its base reward is measured from the running mean of its query, over all users. An episode
without a score on a track takes no part in that track.

|A_personal| <= max(bound, (n - 1) / sqrt(n)) in a group of n, whatever the history. The second term is what a reward
that is normalised within its group can reach. Measured against a history there is no such limit: after a few equal
batches sqrt(v) is close to zero. So s = max(sqrt(v), max |r - b| / bound), with the maximum over the user's rewards in
the group; order and sign stay as they are.

`anchored` and `warming` tell how much of a training is PARPO. With `anchored` at 0 it is the paper's variant C4,
whatever it is called: users have to come back.

The paper's text at hand has lost its equations and constants. Baseline and scale are readings of its prose, and the
numbers are common practice. An anchor made of few samples has a poor spread, so it counts only after `warm_up` batches,
its first batches are averaged evenly, and its variance is taken around what the baseline is: within groups, where the
task is the same, or around the old mean, which single samples and `baseline=anchor` are measured from. A user whose
rewards have never differed is compared within the group.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from agentfw.errors import SettingsError, StorageError
from agentfw.optimizer import Advantage, Scored

from .relative import ROUNDING, Relative, TrackedSettings, centred, mean, normalised, on_track, spread, throughout, unit


class PARPOSettings(TrackedSettings):
    base_weight: float = Field(0.5, ge=0, description="Weight of the base advantage. The paper's value is lost.")
    personal_weight: float = Field(
        0.5, ge=0, description="Weight of the personal advantage. The paper's value is lost."
    )
    base_baseline: Literal["group", "running"] = Field(
        "group",
        description="Baseline of the base reward in a group of one: the group, so that nothing is learned from it, or "
        "the running mean of its query over all users.",
    )
    baseline: Literal["min_upper", "max_lower", "anchor", "group"] = Field(
        "min_upper", description="Baseline that personal rewards are measured from. The paper's equation is lost."
    )
    scale: Literal["anchor", "group"] = Field(
        "anchor",
        description="Standard deviation that personal advantages are divided by: that of the user's history or of the "
        "group. The paper's equation is lost.",
    )
    margin: float = Field(
        1.0,
        ge=0,
        description="Distance between the anchor's mean and the baseline's limit, in standard deviations. "
        "The paper's value is lost.",
    )
    decay: float = Field(
        0.9, ge=0, lt=1, description="Decay of the per-user running mean and variance. The paper's value is lost."
    )
    variance: Literal["baseline", "batch"] = Field(
        "baseline",
        description="Mean that a user's variance is taken around: that of the baseline (of each group, or with "
        "baseline=anchor and for single samples of the history), or that of the batch. The paper doesn't say.",
    )
    bound: float = Field(
        4.0,
        ge=1,
        description="Maximum size of a personal advantage that is measured against a user's anchor. "
        "Where a group's rewards lie further off, the user's standard deviation counts as larger.",
    )
    warm_up: int = Field(
        3, ge=1, description="Batches of a user before their anchor is used. The paper's value is lost."
    )
    anchors: str = Field(
        "", description="File state.json of an earlier training with parpo, whose anchors this one starts with."
    )


@dataclass(frozen=True, slots=True)
class Anchor:
    """Running statistics of one user's personal rewards."""

    mean: float
    variance: float
    updates: int


class PARPO(Relative[PARPOSettings]):
    """Two tracks, and an anchor for each user."""

    def __init__(self, settings: PARPOSettings) -> None:
        super().__init__(settings)
        self.anchors: dict[str, Anchor] = {}
        self.queries: dict[str, Anchor] = {}
        """Running statistics of the base rewards of each query. Base rewards are the same for every user."""
        if settings.anchors:
            try:
                state = json.loads(Path(settings.anchors).read_text("utf-8"))["optimizer"]
            except (OSError, ValueError, KeyError, TypeError) as error:
                wrong = f"optimizer.anchors: can't read {settings.anchors}: {error!r}"
                raise SettingsError(wrong, fix="pass the state.json of a training with parpo") from None
            self.restore(state if isinstance(state, Mapping) else {})

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        values = [[0.0] * len(group) for group in groups]
        users: dict[str, list[list[float]]] = {}
        of_query: dict[str, list[float]] = {}
        judged: list[bool] = []  # of the groups that learn something personal, which do by an anchor
        for group, sums in zip(groups, values, strict=True):
            places, rewards = on_track(group, "base")
            queries = [group[place].episode.task.query for place in places]
            for place, value in zip(places, self._base(queries, rewards), strict=True):
                sums[place] += self.settings.base_weight * value
            for query, reward in zip(queries, rewards, strict=True):
                of_query.setdefault(query, []).append(reward)
            places, rewards = on_track(group, "personal")
            names = [group[place].episode.task.user for place in places]
            personals = self._personal(names, rewards) if names else []
            for place, value in zip(places, personals, strict=True):
                sums[place] += self.settings.personal_weight * value
            if any(personals):
                judged.append(any(map(self._counts, names)))
            for name in dict.fromkeys(names):
                own = [reward for reward, other in zip(rewards, names, strict=True) if other == name]
                users.setdefault(name, []).append(own)
        if self.settings.base_baseline == "running":
            for query, some in of_query.items():
                self.queries[query] = self._updated(self.queries.get(query), [some])
        self.figures["users"] = float(len(users))
        self.figures["anchored"] = sum(judged) / max(len(judged), 1)
        if users:
            self.figures["warming"] = mean([float(not self._counts(name)) for name in users])
            anchors = [self._updated(self.anchors.get(name), parts) for name, parts in users.items()]
            self.anchors |= dict(zip(users, anchors, strict=True))
            self.figures["anchor_mean"] = mean([anchor.mean for anchor in anchors])
            self.figures["anchor_spread"] = mean([math.sqrt(anchor.variance) for anchor in anchors])
        return throughout(groups, values)

    def note(self) -> str:
        """That anchors are idle, because a training can carry the name and leave out what it stands for."""
        if self.figures.get("anchored", 1.0):
            return ""
        return (
            "No group was judged by its user's anchor, so this is PARPO without anchors (the paper's variant C4). "
            f"An anchor counts after {self.settings.warm_up} batches of its user: "
            "let users come back more often, or lower optimizer.warm_up."
        )

    def _base(self, queries: Sequence[str], rewards: Sequence[float]) -> list[float]:
        running = self.settings.base_baseline == "running" and len(rewards) == 1
        anchor = self.queries.get(queries[0]) if running else None
        if anchor is None or anchor.updates < self.settings.warm_up:
            return normalised(rewards)
        difference = rewards[0] - anchor.mean
        one = max(unit(math.sqrt(anchor.variance)), abs(difference) / self.settings.bound)
        return [difference / one if abs(difference) > ROUNDING * abs(anchor.mean) else 0.0]

    def _personal(self, names: Sequence[str], rewards: Sequence[float]) -> list[float]:
        middle, differences, values = mean(rewards), centred(rewards), normalised(rewards)
        for name in filter(self._counts, dict.fromkeys(names)):
            anchor = self.anchors[name]
            deviation = math.sqrt(anchor.variance)
            baselines = {
                "min_upper": min(middle, anchor.mean + self.settings.margin * deviation),
                "max_lower": max(middle, anchor.mean - self.settings.margin * deviation),
                "anchor": anchor.mean,
                "group": middle,
            }
            alone = len(rewards) == 1 and self.settings.baseline != "group"  # the middle is the sample itself
            # Differences within the group are exact zeros where its rewards are equal.
            offset = middle - baselines["anchor" if alone else self.settings.baseline]
            own = {place: differences[place] + offset for place, other in enumerate(names) if other == name}
            one = unit(spread(rewards) if self.settings.scale == "group" else deviation)
            one = max(one, max(map(abs, own.values())) / self.settings.bound)
            for place, difference in own.items():
                values[place] = difference / one
        return values

    def _counts(self, name: str) -> bool:
        """Whether the user's anchor is used: it has seen enough batches, and rewards that differ."""
        anchor = self.anchors.get(name)
        if anchor is None or anchor.updates < self.settings.warm_up:
            return False
        return math.sqrt(anchor.variance) > ROUNDING * abs(anchor.mean)

    def _updated(self, anchor: Anchor | None, groups: Sequence[Sequence[float]]) -> Anchor:
        rewards = [reward for group in groups for reward in group]
        middle, several = mean(rewards), [group for group in groups if len(group) > 1]
        by_group = self.settings.baseline != "anchor" or anchor is None
        if self.settings.variance == "baseline" and several and by_group:
            # By n - 1, as the group's own spread: else few samples would make every user seem too narrow.
            variance = mean([spread(group) ** 2 for group in several])
        elif anchor is not None and (self.settings.variance == "baseline" or len(rewards) == 1):
            variance = mean([(reward - anchor.mean) ** 2 for reward in rewards])
        else:
            variance = mean([(reward - middle) ** 2 for reward in rewards])
        if anchor is None:
            return Anchor(middle, variance, 1)
        # The first batches are averaged evenly, as many as the decay would remember: otherwise the very first one
        # would keep its weight for long.
        old = min(self.settings.decay, anchor.updates / (anchor.updates + 1))
        new = 1.0 - old
        return Anchor(old * anchor.mean + new * middle, old * anchor.variance + new * variance, anchor.updates + 1)

    def state(self) -> dict[str, Any]:
        kept = {"anchors": self.anchors, "queries": self.queries}
        return {
            part: {name: list(astuple(anchor)) for name, anchor in anchors.items()} for part, anchors in kept.items()
        }

    def forget(self, user: str) -> bool:
        return self.anchors.pop(user, None) is not None

    def restore(self, state: Mapping[str, Any]) -> None:
        try:
            self.anchors = _anchors(state["anchors"])
            self.queries = _anchors(state.get("queries", {}))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StorageError(
                f"the state holds no user anchors of parpo: {error!r}",
                fix="resume with the optimizer and the version of agentfw that wrote the checkpoint",
            ) from error


def _anchors(records: Mapping[str, Sequence[float]]) -> dict[str, Anchor]:
    return {
        str(name): Anchor(float(middle), float(variance), int(updates))
        for name, (middle, variance, updates) in records.items()
    }
