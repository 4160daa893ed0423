"""Bootstrap intervals for means and ratios, and paired differences with a p-value.

Reports print an `Interval`, never a bare figure. It includes the number of values and of missing values. NaN means "not
measured" and is skipped and counted. Infinity is a bug and is refused. A single value has no spread, so its bounds are
NaN.

A p-value is printed for six pairs or more. With fewer, no difference could be told from chance.

Intervals are percentile bootstraps, widened for few values as Hesterberg (2015) advises. Without that, a 95 % interval
of ten values covers only about 90 %. Means of resamples lie between the lowest and the highest value, which holds the
true mean of three values in 75 % at most. So intervals of fewer than six are Student's t. The same seed gives the same
result.

    >>> error = bootstrap([0.41, 0.39, 0.44, 0.40, 0.43, 0.38])
    >>> str(error), error.compact(), error.count
    ('0.408 ± 0.022', '0.41±0.02', 6)
    >>> ours, theirs = {"a": 0.2, "b": 0.3, "c": 0.1}, {"a": 0.4, "b": 0.6, "c": 0.4}
    >>> paired_difference(ours, theirs).p_value
    0.25
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
"""Function called as `statistic(matrix, axis=1)` that gives a number for each row, such as numpy's mean and median."""

SEED, RESAMPLES, FLIPS = 42, 1000, 10_000
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
    """An estimate with the bounds of its 95% interval."""

    estimate: float
    low: float
    high: float
    count: int
    """Number of values it is based on."""
    missing: int = 0
    """Number of values that were NaN and skipped."""

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

    def to_record(self) -> dict[str, float | None]:
        """Plain JSON values. An unknown bound is null (one value has no spread)."""
        low, high = (value if math.isfinite(value) else None for value in (self.low, self.high))
        return {"mean": self.estimate, "low": low, "high": high, "count": self.count, "missing": self.missing}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Interval:
        low, high = (math.nan if record[bound] is None else record[bound] for bound in ("low", "high"))
        return cls(record["mean"], low, high, record["count"], record["missing"])

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


def bootstrap(values: Numbers, *, statistic: Statistic = mean) -> Interval:
    """The statistic of the values with its interval. NaN values are skipped and counted. Raises if no value is left."""
    return _interval([_vector(values, "values")], statistic)


def bootstrap_ratio(numerators: Numbers, denominators: Numbers) -> Interval:
    """The ratio of the sums with its interval. Whole pairs are resampled, and the ratio is recomputed each time.

    Use it for an error over all rounds of several users, for example: a user with few rounds then has little weight, as
    in the ratio itself. Pairs with a NaN are skipped and counted. Resamples whose denominators sum to 0 are skipped.
    """
    import numpy as np

    above, below = _vector(numerators, "numerators"), _vector(denominators, "denominators")
    if len(above) != len(below):
        text = f"a ratio needs as many denominators as numerators, not {len(below)} for {len(above)}"
        raise UsageError(text, fix="give one denominator for every numerator, in the same order")

    def ratio(upper: Floats, lower: Floats, axis: int) -> Floats:
        sums = lower.sum(axis=axis)
        found: Floats = np.divide(upper.sum(axis=axis), sums, out=np.full(sums.shape, math.nan), where=sums != 0)
        return found

    interval = _interval([above, below], ratio)
    if math.isnan(interval.estimate):
        raise UsageError("the denominators sum to 0, so there is no ratio", fix="leave out the groups without rounds")
    return interval


def _interval(columns: Sequence[Floats], statistic: Statistic) -> Interval:
    """The statistic of some columns, whose rows are resampled, with its interval."""
    from statistics import NormalDist

    import numpy as np

    known = ~np.any([np.isnan(column) for column in columns], axis=0)
    kept = [column[known] for column in columns]
    count = len(kept[0])
    if not count:
        raise UsageError("there is no value to estimate from", fix="finish at least one episode with a score first")
    estimate = float(statistic(*(column[None, :] for column in kept), axis=1)[0])
    generator, at_once = np.random.default_rng([SEED, 0]), max(1, BLOCK // count)
    resampled = []
    for start in range(0, RESAMPLES, at_once):
        rows = generator.integers(0, count, (min(at_once, RESAMPLES - start), count))
        resampled.append(statistic(*(column[rows] for column in kept), axis=1))
    usable = np.concatenate(resampled)
    usable = usable[~np.isnan(usable)]
    low = high = math.nan
    if count > 1 and len(usable):
        # How many standard deviations of the resamples there are on each side. A resample of n values has only
        # (n - 1) / n of their variance, and few values need Student's t, here by a Cornish-Fisher expansion: scipy
        # isn't part of the base install. Of more values, the share of resamples beyond is cut off on each side.
        normal = NormalDist()
        z, freedom = normal.inv_cdf(0.975), count - 1
        student = (
            z
            + (z**3 + z) / (4 * freedom)
            + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
            + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
        )
        deviations = student * math.sqrt(count / freedom)
        tail, margin = normal.cdf(-deviations), deviations * float(np.std(usable))
        few = estimate - margin, estimate + margin
        low, high = few if count < LEAST_PAIRS else map(float, np.quantile(usable, [tail, 1 - tail]))
    return Interval(estimate, low, high, count, len(known) - count)


def paired_difference(a: Mapping[str, float] | Numbers, b: Mapping[str, float] | Numbers) -> PairedDifference:
    """The mean of a - b over episodes that both have, by id (mappings) or by position (sequences of equal length).

    The p-value comes from flipping the signs of the differences: under the null hypothesis, each sign is a coin toss.
    It is never 0 because the observed signs count as one of the tosses.
    """
    import numpy as np

    unpaired = 0
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        shared, unpaired = sorted(a.keys() & b.keys()), len(a.keys() ^ b.keys())
        if not shared:
            text = "the two sides have no episode in common, so there is nothing to pair"
            raise UsageError(text, fix="compare runs of the same environment, split and seed")
        a, b = [a[key] for key in shared], [b[key] for key in shared]
    if len(a) != len(b):
        text = f"values paired by position need equal lengths, not {len(a)} and {len(b)}"
        raise UsageError(text, fix="give mappings from id to value: ids that only one side has are then skipped")
    differences = _vector(a, "a") - _vector(b, "b")
    interval, differences = bootstrap(differences), differences[~np.isnan(differences)]
    count = len(differences)
    # Sums of the same numbers in another order differ in the last digits. Treat them as equal.
    observed = abs(float(differences.sum())) - 1e-12 * float(np.abs(differences).sum())
    if count <= EXACT_PAIRS:
        tosses = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
        p_value = float(np.mean(np.abs((1.0 - 2.0 * tosses) @ differences) >= observed))
        return PairedDifference(interval, p_value, unpaired)
    generator, at_once = np.random.default_rng([SEED, 1]), max(1, BLOCK // count)
    as_far = 0
    for start in range(0, FLIPS, at_once):
        signs = 1.0 - 2.0 * generator.integers(0, 2, (min(at_once, FLIPS - start), count), dtype=np.int8)
        as_far += int(np.count_nonzero(np.abs(signs @ differences) >= observed))
    return PairedDifference(interval, (as_far + 1) / (FLIPS + 1), unpaired)


def _vector(values: Any, name: str) -> Floats:
    import numpy as np

    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} contains something that isn't a number: {error}") from error
    if vector.ndim != 1:
        raise UsageError(f"{name} has {vector.ndim} dimensions; a list of numbers has one")
    if np.isinf(vector).any():
        text = f"{name} contains an infinite number"
        raise UsageError(text, fix="find its source; use NaN for values that weren't measured")
    return vector
