"""The intervals hold what they promise, and the p-values are honest."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from agentfw.errors import UsageError
from agentfw.report.statistics import Interval, bootstrap, bootstrap_ratio, paired_difference

REPETITIONS = 500


def test_a_95_interval_holds_the_true_mean_95_times_in_100() -> None:
    for count in (3, 5, 10):
        intervals = [bootstrap(np.random.default_rng(seed).normal(3, 2, count)) for seed in range(REPETITIONS)]

        assert 0.92 <= sum(each.low <= 3 <= each.high for each in intervals) / REPETITIONS <= 0.98


def test_a_ratio_is_the_ratio_of_the_sums() -> None:
    interval = bootstrap_ratio([1, 0, 5] * 2, [10, 0, 10] * 2)

    assert interval.estimate == pytest.approx(0.3)
    assert interval.low > 0, "a resample without a denominator has no ratio"


@pytest.mark.parametrize(
    ("pairs", "p_value", "chance"),
    [
        (1, 1.0, "too few to tell from chance: 1 of at least 6 pairs"),
        (5, 2 / 32, "too few to tell from chance: 5 of at least 6 pairs"),
        (6, 2 / 64, "p = 0.031"),
    ],
)
def test_few_pairs_are_tested_exactly_and_too_few_not_at_all(pairs: int, p_value: float, chance: str) -> None:
    result = paired_difference([1.0, 2.0, 3.0, 4.0, 5.0, 6.0][:pairs], [0.0] * pairs)

    assert result.p_value == p_value
    assert paired_difference([-0.2, 0.2, 0.4, 0.4, 0.4, -0.3], [0.0] * 6).p_value == 20 / 64, "sums that round"
    assert result.chance == chance
    assert str(result).endswith(f", {chance}")


@pytest.mark.parametrize(("ups", "low", "high"), [(20, 0, 1e-4), (14, 0.10, 0.13), (10, 0.99, 1)])
def test_many_pairs_are_tested_on_both_sides_by_tosses_with_what_was_seen_among_them(
    ups: int, low: float, high: float
) -> None:
    for sign in (1.0, -1.0):
        p_value = paired_difference([sign] * ups + [-sign] * (20 - ups), [0.0] * 20).p_value
        assert low < p_value <= high


def test_episodes_are_paired_by_id_whatever_their_order() -> None:
    ours, theirs = {"a": 1.0, "b": 2.0, "only ours": 99.0}, {"b": 1.5, "a": 0.5, "x": 0.0, "y": 0.0}
    result = paired_difference(ours, theirs)
    assert result.difference.estimate == pytest.approx(0.5)
    assert (result.difference.count, result.unpaired) == (2, 3)


def test_nan_is_left_out_and_said() -> None:
    interval = bootstrap([0.2, math.nan, 0.4, math.nan])
    assert interval.estimate == pytest.approx(0.3)
    assert (interval.count, interval.missing) == (2, 2)
    assert str(interval).endswith("(2 missing)")
    assert bootstrap_ratio([1, math.nan], [2, 3]).missing == 1
    assert paired_difference({"a": math.nan, "b": 1.0}, {"a": 0.0, "b": 0.5}).difference.missing == 1


def test_one_value_has_an_estimate_but_no_bounds() -> None:
    interval = bootstrap([0.4])
    assert interval.estimate == 0.4
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)
    assert str(interval) == interval.compact() == "0.4"


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda: bootstrap([]), "no value"),
        (lambda: bootstrap([math.nan, math.nan]), "no value"),
        (lambda: bootstrap([1.0, math.inf]), "infinite"),
        (lambda: bootstrap(["many"]), "isn't a number"),  # type: ignore[list-item]
        (lambda: bootstrap_ratio([1.0, 2.0], [1.0]), "as many denominators"),
        (lambda: bootstrap_ratio([1.0, 2.0], [0.0, 0.0]), "sum to 0"),
        (lambda: paired_difference({"a": 1.0}, {"b": 1.0}), "no episode in common"),
        (lambda: paired_difference([1.0], [1.0, 2.0]), "equal lengths"),
    ],
)
def test_what_cannot_be_estimated_says_why(call: Callable[[], object], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        call()


@pytest.mark.parametrize(
    ("interval", "full", "compact"),
    [
        (Interval(0.412, 0.394, 0.430, 40), "0.412 ± 0.018", "0.41±0.02"),
        (Interval(111.3, 103.3, 119.3, 40), "111.3 ± 8.0", "111±8"),
        (Interval(0.5, 0.5, 0.5, 3), "0.500 ± 0.000", "0.50±0.00"),
        (Interval(0.0, 0.0, 0.0, 3), "0.000 ± 0.000", "0.00±0.00"),
        (Interval(-0.2, -0.31, -0.09, 9), "-0.20 ± 0.11", "-0.2±0.1"),
        (Interval(1.47e12, 1.0e12, 2.0e12, 3), "1.47e+12 ± 5e+11", "1.5e+12±5e+11"),
    ],
)
def test_an_interval_reads_well(interval: Interval, full: str, compact: str) -> None:
    assert (str(interval), interval.compact()) == (full, compact)
