"""Empirical Bayes: each reward against the best guess of what its user would have given, from all that is known.

    agentfw train --optimizer empirical_bayes
    agentfw train --optimizer empirical_bayes --set samples=1      # one answer a request is enough

A baseline is a guess of V, the value of a request for a user, made without the reward itself. Three things tell
something of V, and weighted by precision they are one formula, for groups of one, of several, and of several users:

- the other samples of the same request for the same user. Their mean is off by sigma^2 / (G - 1), where sigma^2 is the
  variance of a reward around V;
- the user's history, a running mean m of earlier rewards. It is off by tau^2 + e^2, where tau^2 is the variance of V
  from request to request, and e^2 that of m itself;
- the population, which the history is drawn towards as long as it is short. The spread between users is nu^2.

    c = nu^2 / (nu^2 + s^2 / W)                               W: the number of rewards in m, of variance s^2
    h = c m + (1 - c) mu,   e^2 = (1 - c) nu^2                mu: the mean over users
    a = (tau^2 + e^2) / (tau^2 + e^2 + sigma^2 / (G - 1))     G: the user's samples in the group; a = 0 for a single one
    b = a (mean of the user's other samples) + (1 - a) h
    A = (r - b) / (d + 0.001), at most `bound` in size
    d^2 = (sigma^2 + (G - 1)^2 g^2) / (1 + (G - 1)^2)         g^2: the variance within the group

This is the mixture of equation 76 of the parpo-psgm paper, with its alpha derived. The logarithm of s^2, the variance
around h, is drawn towards the population's as m is, so that nobody outweighs others by using a wide scale. sigma^2 and
tau^2 are shares of s^2 that all users have in common. They are estimated from groups with several samples of one user.

Advantages are in units of sigma, as those of GRPO are. Requests differ in it, so where the group's own spread is known
it is what counts: from half in groups of two to nearly alone in groups of eight, which was found by trying.

Each track is judged in this way, and A is their weighted sum. Personal rewards are a user's own. Base rewards would be
the same for everybody, so on the base track all users are one. An episode without a score on a track takes no part in
that track, because nothing said isn't a reward of 0.

The state is three numbers for each user: W, m, and s^2 before it is drawn. A batch is judged before it changes them. W
loses 3% with each update (`discount`), because the policy changes, and so do people. A user who hasn't been seen for
long is forgotten. The first batch is judged by its own other rewards.

Relatives, which benchmarks/optimizers_bias.py compares: REINFORCE++, RLOO, SPO, PARPO, and the estimator of James and
Stein, which weighs users and population in this way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from pydantic import Field

from agentfw.errors import StorageError
from agentfw.optimizer import Advantage, Scored
from agentfw.scores import Track

from .relative import FLOOR, ROUNDING, Relative, TrackedSettings, mean, on_track, spread, throughout

_KNOWN = 1.5  # weight from which a user is part of the population: more than a single reward
_GONE = 0.02  # weight below which a user is forgotten, as a single reward is after 130 updates
_LEAST = 0.02  # smallest share of one variance in another: neither users nor requests are ever all alike
_FAR = 10.0
"""Most that one group says of these shares: somebody whose scale has changed must not change them for everybody."""
_SMOOTHING = 0.9  # what is left of the estimated shares after a batch; the first batches are averaged evenly

Rewards = Sequence[tuple[str, float]]  # the rewards of one group, each with its user


class EmpiricalBayesSettings(TrackedSettings):
    discount: float = Field(0.97, gt=0, lt=1, description="Share of a user's history that is left after an update.")
    bound: float = Field(5.0, gt=0, description="Maximum size of an advantage on one track.")


@dataclass(frozen=True, slots=True)
class History:
    """What one user's rewards were like."""

    weight: float
    mean: float
    variance: float  # the mean square of rewards around what was expected of them

    def faded(self, discount: float) -> History:
        return replace(self, weight=self.weight * discount)

    def followed(self, rewards: Sequence[float], expected: Sequence[float]) -> History:
        """The history with further rewards, each of which was expected to be what stands in its place."""
        square = mean([(reward - other) ** 2 for reward, other in zip(rewards, expected, strict=True)])
        weight = self.weight + len(rewards)
        new = len(rewards) / weight
        middle = self.mean + new * (mean(rewards) - self.mean)
        return History(weight, middle, self.variance + new * (square - self.variance))


NEW = History(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Population:
    """Mean and variance of users' means, and of the logarithms of their variances."""

    mean: float
    between: float
    log_variance: float
    log_between: float

    @classmethod
    def of(cls, users: Sequence[History]) -> Population:
        known = [user for user in users if user.weight > _KNOWN] or users
        means, logarithms = [user.mean for user in known], [_log(user.variance) for user in known]
        # By so much would the estimates differ of users who are all alike.
        by_chance = mean([user.variance / user.weight for user in known])
        if len(known) == 1:
            return cls(means[0], by_chance, logarithms[0], 1.0)
        between = max(spread(means) ** 2 - by_chance, _LEAST * by_chance)
        log_between = max(spread(logarithms) ** 2 - mean([2 / user.weight for user in known]), _LEAST)
        return cls(mean(means), between, mean(logarithms), log_between)

    @classmethod
    def of_batch(cls, groups: Sequence[Rewards]) -> Population:
        """Before anything is known, users differ as much as everything in the batch does."""
        every = [reward for group in groups for _, reward in group]
        within = [spread([reward for _, reward in group]) ** 2 for group in groups if len(group) > 1]
        between = spread(every) ** 2
        return cls(mean(every), between, _log(mean(within) if any(within) else between), 1.0)

    def expects(self, past: History) -> tuple[float, float, float]:
        """Of a user with this history the mean reward, its error (e^2), and the variance (s^2)."""
        variance = math.exp(self.log_variance)
        if past.weight:
            own = self.log_between / (self.log_between + 2 / past.weight)
            variance = math.exp(own * _log(past.variance) + (1 - own) * self.log_variance)
        known = self.between * past.weight
        kept = known / (known + variance) if known else 0.0
        return kept * past.mean + (1 - kept) * self.mean, (1 - kept) * self.between, variance


class TrackHistories:
    """The histories of all users on one track."""

    def __init__(self) -> None:
        self.users: dict[str, History] = {}
        self.noise = self.requests = 0.5  # sigma^2 and tau^2 as shares of s^2
        self.batches = 0  # how many these were estimated from
        self.figures: dict[str, float] = {}

    def judge(self, groups: Sequence[Rewards], settings: EmpiricalBayesSettings) -> list[list[float]]:
        """The advantages of a batch, which is then added to the histories."""
        faded = {user: history.faded(settings.discount) for user, history in self.users.items()}
        before = {user: history for user, history in faded.items() if history.weight > _GONE}
        population = Population.of(list(before.values())) if before else Population.of_batch(groups)
        every = [reward for group in groups for _, reward in group]
        total = math.fsum(every)
        found: list[list[float]] = []
        added: dict[str, tuple[list[float], list[float]]] = {}
        spreads: list[tuple[float, int]] = []
        requests: list[float] = []
        shares: list[float] = []
        for group in groups:
            values = [0.0] * len(group)
            by_user: dict[str, list[int]] = {}
            for place, (user, _) in enumerate(group):
                by_user.setdefault(user, []).append(place)
            for user, own in by_user.items():
                rewards = [group[place][1] for place in own]
                middle, within, others = mean(rewards), spread(rewards) ** 2, len(rewards) - 1
                expected, error, variance = population.expects(before.get(user, NEW))
                outside = len(every) - len(rewards)
                if not before:  # a sample isn't part of what it is compared with
                    expected = (total - math.fsum(rewards)) / outside if outside else middle
                square, share = self.noise * variance, 0.0
                if others:
                    square = (square + others**2 * within) / (1 + others**2)
                    off = self.requests * variance + error
                    share = off / (off + self.noise * variance / others) if before or outside else 1.0
                    spreads.append((min(within / variance, _FAR), others))
                    if before:
                        gap = ((middle - expected) ** 2 - error) / variance - self.noise / len(rewards)
                        requests.append(max(-_FAR, min(gap, _FAR)))
                for place, reward in zip(own, rewards, strict=True):
                    rest = (middle * len(rewards) - reward) / others if others else expected
                    difference = reward - (share * rest + (1 - share) * expected)
                    if abs(difference) > ROUNDING * max(abs(reward), abs(reward - difference)):
                        value = difference / (math.sqrt(square) + FLOOR)
                        values[place] = max(-settings.bound, min(settings.bound, value))
                noted = added.setdefault(user, ([], []))
                noted[0].extend(rewards)
                noted[1].extend([expected] * len(rewards))
                shares.append(1 - share)
            found.append(values)
        self.figures = {"history_share": mean(shares), "new_users": mean([float(user not in before) for user in added])}
        self._estimate(spreads, requests)
        self.users = before | {user: before.get(user, NEW).followed(*noted) for user, noted in added.items()}
        return found

    def _estimate(self, spreads: Sequence[tuple[float, int]], requests: Sequence[float]) -> None:
        """How much of s^2 lies within requests, and how much between them."""
        if not spreads:
            return
        old = min(_SMOOTHING, self.batches / (self.batches + 1))
        self.batches += 1
        within = math.fsum(one * count for one, count in spreads) / sum(count for _, count in spreads)
        self.noise = old * self.noise + (1 - old) * max(within, _LEAST)
        if requests:
            self.requests = old * self.requests + (1 - old) * max(mean(requests), _LEAST)

    def state(self) -> dict[str, Any]:
        users = {user: list(astuple(history)) for user, history in self.users.items()}
        return {"users": users, "noise": self.noise, "requests": self.requests, "batches": self.batches}

    def restore(self, state: Mapping[str, Any]) -> None:
        users = {str(user): History(*map(float, history)) for user, history in state["users"].items()}
        shares = float(state["noise"]), float(state["requests"])
        self.batches = int(state["batches"])
        self.users, (self.noise, self.requests) = users, shares


class EmpiricalBayes(Relative[EmpiricalBayesSettings]):
    """Two tracks, each judged by what is known of its users."""

    baseline_has_own_sample = False

    def __init__(self, settings: EmpiricalBayesSettings) -> None:
        super().__init__(settings)
        self.tracks: dict[Track, TrackHistories] = {"base": TrackHistories(), "personal": TrackHistories()}

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        values = [[0.0] * len(group) for group in groups]
        weights = self.settings.weights
        for track, histories in self.tracks.items():
            # The groups with scores on this track: number and place of each sample that has some, and the rewards.
            about: list[list[tuple[int, int]]] = []
            rewards: list[list[tuple[str, float]]] = []
            for number, group in enumerate(groups):
                places, found = on_track(group, track)
                if places:
                    about.append([(number, place) for place in places])
                    users = [group[place].episode.task.user if track == "personal" else "" for place in places]
                    rewards.append(list(zip(users, found, strict=True)))
            for those, found in zip(about, histories.judge(rewards, self.settings) if about else (), strict=True):
                for (number, place), value in zip(those, found, strict=True):
                    values[number][place] += weights[track] * value
        self.figures |= self.tracks["personal"].figures
        return throughout(groups, values)

    def state(self) -> dict[str, Any]:
        return {track: histories.state() for track, histories in self.tracks.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        try:
            for track, histories in self.tracks.items():
                histories.restore(state[track])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StorageError(
                f"the state holds no histories of empirical_bayes: {error!r}",
                fix="resume with the optimizer and the version of agentfw that wrote the checkpoint",
            ) from error

    def forget(self, user: str) -> bool:
        return self.tracks["personal"].users.pop(user, None) is not None


def _log(variance: float) -> float:
    return math.log(max(variance, FLOOR * FLOOR))
