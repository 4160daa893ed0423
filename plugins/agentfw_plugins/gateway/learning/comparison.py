"""Estimates which share of a version's own answers would be liked, from rated answers that it wasn't trained on.

Each rated answer counts by how likely the version is to give it, relative to how likely it was to be given: by all
versions that gave rated answers, each as often as it did. This is self-normalized importance sampling (Swaminathan and
Joachims, 2015). So what matters is what a version would say: an answer that was rare already and becomes rarer counts
as little as before, and a version that ends its answers earlier isn't taken for the same one because most tokens are.

The difference of the estimates for the two versions is tested by a permutation test: the p-value is the share of
shuffles of the thumbs among the answers that have a difference at least as large. No answer counts more than
MOST_COUNTED times, so that a few of them don't decide. This assumes that thumbs depend on the question and the answer
and not on the version, that answers are rated independently of each other, and that they were drawn at about the
temperature 1.

What nobody has rated, this can't see. A ruined model is a version that says something else altogether. So a version
must still give some of the answers that were liked: on average, each must be at least LEAST_LEFT times as likely as it
was, where one that has become likelier counts as 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.05
LEAST = 3
"""Minimum number of liked and of disliked answers. With fewer, no shuffle is rare enough."""
MOST_COUNTED = 2.0
LEAST_LEFT = 0.1
_SHUFFLES = 10_000


@dataclass(frozen=True, slots=True)
class Comparison:
    liked: float
    """The estimated share of the new version's answers that would be liked, as far as such answers were rated."""
    before: float
    """That of the version that it is compared with."""
    p_value: float
    left: float
    """How much of the liked answers is left in the new version, from 0 to 1."""
    answers: int
    counted: float
    """As how many answers of the new version they count: the effective sample size."""

    def is_better(self, level: float = LEVEL, by: float = 0.0) -> bool:
        """Whether so much more of the new version's answers would be liked, at a level that several tests may share."""
        return self.liked > self.before + by and self.left >= LEAST_LEFT and self.p_value < level

    @property
    def figures(self) -> dict[str, float]:
        figures = {"liked": self.liked, "before": self.before, "p": self.p_value}
        return {**figures, "left": self.left, "counted": self.counted}

    def __str__(self) -> str:
        said = (
            f"would be liked in {self.liked:.2f} of its answers instead of {self.before:.2f}, as far as such answers "
            f"were rated (p = {self.p_value:.4f}; {self.answers} held-out answers count as {self.counted:.0f})"
        )
        return said if self.left >= LEAST_LEFT else f"{said}, but of liked answers only {self.left:.3f} is left"


def compare(
    logprobs: Mapping[str, Sequence[float]],
    new: str,
    before: str,
    given_by: Sequence[str],
    liked: Sequence[bool],
    seed: int = 7,
) -> Comparison:
    """Compare two versions by the log probabilities of whole answers, and by the version that gave each."""
    likes, count = np.asarray(liked, bool), len(liked)
    by = {version: np.asarray(values, float) for version, values in logprobs.items()}
    drawn = np.logaddexp.reduce([by[one] + np.log(often / count) for one, often in Counter(given_by).items()])
    weights, earlier = (_weights(by[one] - drawn) for one in (new, before))
    return Comparison(
        liked=float(weights[likes].sum()),
        before=float(earlier[likes].sum()),
        p_value=_p_value(weights - earlier, likes, seed),
        left=float(np.exp(np.minimum(by[new] - drawn, 0.0))[likes].mean()),
        answers=count,
        counted=float(1 / (weights**2).sum()),
    )


def _weights(ratios: np.ndarray) -> np.ndarray:
    """The shares of the whole that answers have, from the logarithms of how often they count."""
    counted = np.minimum(ratios, np.log(MOST_COUNTED))
    weights = np.exp(counted - counted.max())  # also where all are too rare for a floating-point number
    return np.asarray(weights / weights.sum())


def shuffled(values: np.ndarray, group: np.ndarray, seed: int = 7) -> tuple[float, float]:
    """The difference of two means, and the share of shuffles of the groups with at least as large a one."""
    return float(values[group].mean() - values[~group].mean()), _p_value(values, group, seed)


def _p_value(values: np.ndarray, group: np.ndarray, seed: int) -> float:
    """The share of shuffles of a group in which its values have at least as large a sum."""
    generator = np.random.default_rng(seed)
    drawn = generator.permuted(np.tile(values, (_SHUFFLES, 1)), axis=1)[:, : int(group.sum())].sum(axis=1)
    slack = 1e-12 * float(np.abs(values).sum())
    return float((1 + int((drawn >= values[group].sum() - slack).sum())) / (1 + _SHUFFLES))
