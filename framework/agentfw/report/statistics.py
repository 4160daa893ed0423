"""Bootstrap intervals for means and ratios, and paired differences with a p-value.

Reports print an `Interval`, never a bare figure. It includes the number of values and of missing values. NaN means "not
measured" and is skipped and counted. Infinity is a bug and is refused. A single value has no spread, so its bounds are
NaN.

A p-value is printed for six pairs or more. With fewer, no difference could be told from chance.

Intervals are percentile bootstraps, widened for few values as Hesterberg (2015) advises. Without that, a 95 % interval
of ten values covers only about 90 %. The same seed gives the same result.

    >>> error = bootstrap([0.41, 0.39, 0.44, 0.40, 0.43, 0.38])
    >>> str(error), error.compact(), error.count
    ('0.408 ± 0.022', '0.41±0.02', 6)
    >>> ours, theirs = {"a": 0.2, "b": 0.3, "c": 0.1}, {"a": 0.4, "b": 0.6, "c": 0.4}
    >>> paired_difference(ours, theirs).p_value
    0.25
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentfw.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.float64]]
    Numbers = Sequence[float] | np.ndarray[Any, Any]

__all__ = [
    "LEAST_PAIRS",
    "Interval",
    "PairedDifference",
    "Statistic",
    "bootstrap",
    "bootstrap_ratio",
    "mean",
    "paired_difference",
    "probability",
]

Statistic = Callable[..., Any]
"""Function called as `statistic(matrix, axis=1)` that returns one number per row, such as numpy's mean and median."""

BLOCK = 4_000_000
"""Maximum number of resampled values in memory at once (32 MB)."""
EXACT_PAIRS = 12
"""Maximum number of pairs for which all sign flips are tried (4096). Above, flips are sampled."""

LEAST_PAIRS = 6
"""Minimum number of pairs for a p-value below 0.05: the signs of n pairs agree by chance in 2 of 2^n cases."""


def probability(value: float, *, equals: str = "") -> str:
    """A p-value with three decimals. It is never 0.

    >>> probability(0.0421), probability(0.00002), probability(0.5, equals="= ")
    ('0.042', '< 0.001', '= 0.500')
    """
    return "< 0.001" if value < 0.001 else f"{equals}{value:.3f}"


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its bounds at confidence `level`."""

    estimate: float
    low: float
    high: float
    count: int
    """Number of values it is based on."""
    missing: int = 0
    """Number of values that were NaN and skipped."""
    level: float = 0.95

    @property
    def margin(self) -> float:
        """Half the width. NaN for a single value."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        """`0.412 ± 0.018`, with two digits of the margin, and the number of missing values."""
        text = self._format(" ± ", figures=2)
        return f"{text} ({self.missing} missing)" if self.missing else text

    def compact(self) -> str:
        """`0.41±0.02`, with one digit of the margin, for tables and progress lines."""
        return self._format("±", figures=1)

    def _format(self, joint: str, figures: int) -> str:
        if not math.isfinite(self.margin):
            return f"{self.estimate:.{figures + 1}g}"
        value, digits = self.margin or self.estimate, figures if self.margin else figures + 1
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else digits
        if decimals > 8 or abs(self.estimate) >= 1e9:
            return f"{self.estimate:.{figures + 1}g}{joint}{self.margin:.{figures}g}"
        return f"{self.estimate:.{decimals}f}{joint}{self.margin:.{decimals}f}"


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean of a - b over pairs, with the two-sided p-value of the null hypothesis "no difference"."""

    difference: Interval
    p_value: float
    unpaired: int = 0
    """Ids that only one side has. They are not used."""

    @property
    def chance(self) -> str:
        """The p-value in words, or that there are too few pairs for one to say anything."""
        pairs = self.difference.count
        if pairs < LEAST_PAIRS:
            return f"too few to tell from chance: {pairs} of at least {LEAST_PAIRS} pairs"
        return f"p {probability(self.p_value, equals='= ')}"

    def __str__(self) -> str:
        return f"{self.difference}, {self.chance}"


def mean(values: Any, axis: int | None = None) -> Any:
    """The mean, as the statistic of an interval."""
    import numpy as np

    return np.mean(values, axis=axis)


def bootstrap(
    values: Numbers,
    *,
    statistic: Statistic = mean,
    samples: int = 1000,
    seed: int = 42,
    level: float = 0.95,
) -> Interval:
    """The statistic of the values with its interval. NaN values are skipped and counted. Raises if no value is left."""
    import numpy as np

    everything = _vector(values, "values")
    kept = everything[~np.isnan(everything)]
    _check(kept, samples, level)
    estimate = float(statistic(kept[None, :], axis=1)[0])
    resampled = [statistic(kept[rows], axis=1) for rows in _resamples(len(kept), samples, seed)]
    low, high = _bounds(np.concatenate(resampled), len(kept), level)
    return Interval(estimate, low, high, len(kept), len(everything) - len(kept), level)


def bootstrap_ratio(
    numerators: Numbers,
    denominators: Numbers,
    *,
    samples: int = 1000,
    seed: int = 42,
    level: float = 0.95,
) -> Interval:
    """The ratio of the sums with its interval. Whole pairs are resampled, and the ratio is recomputed each time.

    Use it for an error over all rounds of several users, for example: a user with few rounds then has little weight, as
    in the ratio itself. Pairs with a NaN are skipped and counted. Resamples whose denominators sum to 0 are skipped.
    """
    import numpy as np

    above, below = _vector(numerators, "numerators"), _vector(denominators, "denominators")
    if len(above) != len(below):
        raise UsageError(
            f"a ratio needs as many denominators as numerators, not {len(below)} for {len(above)}",
            fix="give one denominator for every numerator, in the same order",
        )
    known = ~(np.isnan(above) | np.isnan(below))
    above, below = above[known], below[known]
    _check(above, samples, level)
    if below.sum() == 0:
        raise UsageError("the denominators sum to 0, so there is no ratio", fix="leave out the groups without rounds")
    ratios = []
    for rows in _resamples(len(above), samples, seed):
        sums = below[rows].sum(axis=1)
        usable = sums != 0
        ratios.append(above[rows].sum(axis=1)[usable] / sums[usable])
    low, high = _bounds(np.concatenate(ratios), len(above), level)
    return Interval(float(above.sum() / below.sum()), low, high, len(above), int((~known).sum()), level)


def paired_difference(
    a: Mapping[str, float] | Numbers,
    b: Mapping[str, float] | Numbers,
    *,
    samples: int = 1000,
    permutations: int = 10_000,
    seed: int = 42,
    level: float = 0.95,
) -> PairedDifference:
    """The mean of a - b over episodes that both have, by id (mappings) or by position (sequences of equal length).

    The p-value comes from flipping the signs of the differences: under the null hypothesis, each sign is a coin toss.
    It is never 0 because the observed signs count as one of the tosses.
    """
    import numpy as np

    first, second, unpaired = _pair(a, b)
    differences = first - second
    interval = bootstrap(differences, samples=samples, seed=seed, level=level)
    known = differences[~np.isnan(differences)]
    return PairedDifference(interval, _sign_flip(known, permutations, seed), unpaired)


def _pair(a: Mapping[str, float] | Numbers, b: Mapping[str, float] | Numbers) -> tuple[Floats, Floats, int]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        shared = sorted(a.keys() & b.keys())
        if not shared:
            raise UsageError(
                "the two sides have no episode in common, so there is nothing to pair",
                fix="compare runs of the same environment, split and seed",
            )
        sides = [a[key] for key in shared], [b[key] for key in shared]
        return _vector(sides[0], "a"), _vector(sides[1], "b"), len(a.keys() ^ b.keys())
    if isinstance(a, Mapping) or isinstance(b, Mapping):
        raise UsageError("one side has ids and the other has none", fix="give both as mappings from id to value")
    if len(a) != len(b):
        raise UsageError(
            f"values paired by position need equal lengths, not {len(a)} and {len(b)}",
            fix="give mappings from id to value: ids that only one side has are then skipped",
        )
    return _vector(a, "a"), _vector(b, "b"), 0


def _sign_flip(differences: Floats, permutations: int, seed: int) -> float:
    import numpy as np

    count = len(differences)
    # Sums of the same numbers in another order differ in the last digits. Treat them as equal.
    observed = abs(float(differences.sum())) - 1e-12 * float(np.abs(differences).sum())
    if count <= EXACT_PAIRS:
        tosses = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        return float(np.mean(np.abs((1.0 - 2.0 * tosses) @ differences) >= observed))
    generator = np.random.default_rng([seed, 1])
    as_far, done = 0, 0
    while done < permutations:
        rows = min(max(1, BLOCK // count), permutations - done)
        signs = 1.0 - 2.0 * generator.integers(0, 2, (rows, count), dtype=np.int8)
        as_far += int(np.count_nonzero(np.abs(signs @ differences) >= observed))
        done += rows
    return (as_far + 1) / (permutations + 1)


def _resamples(count: int, samples: int, seed: int) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    """Rows of indices drawn with replacement, in blocks."""
    import numpy as np

    generator = np.random.default_rng([seed, 0])
    at_once = max(1, BLOCK // count)
    for start in range(0, samples, at_once):
        yield generator.integers(0, count, (min(at_once, samples - start), count))


def _bounds(resampled: Floats, count: int, level: float) -> tuple[float, float]:
    import numpy as np

    usable = resampled[~np.isnan(resampled)]
    if count < 2 or len(usable) == 0:
        return math.nan, math.nan
    tail = _tail(count, level)
    low, high = np.quantile(usable, [tail, 1 - tail])
    return float(low), float(high)


def _tail(count: int, level: float) -> float:
    """The share of resamples to cut off on each side.

    The plain (1 - level) / 2 is right for many values. A resample of n values has only (n - 1) / n of their variance,
    and few values need Student's t. Cutting off less corrects for both.
    """
    from statistics import NormalDist

    normal = NormalDist()
    z, freedom = normal.inv_cdf((1 + level) / 2), count - 1
    # Student's t by a Cornish-Fisher expansion: scipy isn't part of the base install.
    student = (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
    return normal.cdf(-student * math.sqrt(count / freedom))


def _vector(values: Any, name: str) -> Floats:
    import numpy as np

    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} contains something that isn't a number: {error}") from error
    if vector.ndim != 1:
        raise UsageError(f"{name} has {vector.ndim} dimensions; a list of numbers has one")
    if np.isinf(vector).any():
        raise UsageError(
            f"{name} contains an infinite number", fix="find its source; use NaN for values that weren't measured"
        )
    return vector


def _check(kept: Floats, samples: int, level: float) -> None:
    if len(kept) == 0:
        raise UsageError("there is no value to estimate from", fix="finish at least one episode with a score first")
    if samples < 1:
        raise UsageError(f"samples is {samples}; a bootstrap needs at least one")
    if not 0 < level < 1:
        raise UsageError(f"level is {level}; it is a share between 0 and 1, such as 0.95")
