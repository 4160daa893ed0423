"""The intervals hold what they promise, and the p-values are honest."""

from __future__ import annotations

import doctest
import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import agentfw.report.statistics
from agentfw.errors import UsageError
from agentfw.report.statistics import Interval, bootstrap, bootstrap_ratio, paired_difference

REPETITIONS = 500


def coverage(draw: Callable[[np.random.Generator], Interval], truth: float) -> float:
    hits = 0
    for repetition in range(REPETITIONS):
        interval = draw(np.random.default_rng(repetition))
        hits += interval.low <= truth <= interval.high
    return hits / REPETITIONS


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(agentfw.report.statistics).failed == 0


@pytest.mark.parametrize("count", [10, 30, 100])
def test_a_95_interval_holds_the_true_mean_95_times_in_100(count: int) -> None:
    assert 0.92 <= coverage(lambda draw: bootstrap(draw.normal(3, 2, count)), 3) <= 0.98


def test_the_interval_of_a_skewed_score_still_covers() -> None:
    assert 0.92 <= coverage(lambda draw: bootstrap(draw.exponential(1.0, 60)), 1) <= 0.98


def test_a_wider_level_gives_a_wider_interval_and_more_values_a_narrower_one() -> None:
    values = np.random.default_rng(0).normal(0, 1, 200)
    assert bootstrap(values, level=0.99).margin > bootstrap(values).margin > bootstrap(values, level=0.5).margin
    assert bootstrap(values).margin < bootstrap(values[:20]).margin


def test_another_statistic_can_be_estimated() -> None:
    interval = bootstrap([1, 2, 3, 4, 1000], statistic=np.median)
    assert interval.estimate == 3
    assert interval.low < 3 <= interval.high


@pytest.mark.slow
def test_the_interval_of_a_ratio_covers_where_the_mean_of_ratios_would_not() -> None:
    def draw(generator: np.random.Generator) -> Interval:
        rounds = generator.integers(1, 40, 50)
        # Users with many rounds err less: the mean of their own rates would be far above the rate over all rounds.
        errors = generator.binomial(rounds, np.where(rounds > 20, 0.1, 0.5))
        return bootstrap_ratio(errors, rounds)

    sizes = np.arange(1, 40)
    truth = float((sizes * np.where(sizes > 20, 0.1, 0.5)).sum() / sizes.sum())
    assert 0.92 <= coverage(draw, truth) <= 0.98


def test_a_ratio_is_the_ratio_of_the_sums() -> None:
    assert bootstrap_ratio([1, 0, 5], [10, 0, 10]).estimate == pytest.approx(0.3)


def test_p_values_are_uniform_when_there_is_no_difference() -> None:
    values = []
    for repetition in range(400):
        draw = np.random.default_rng(repetition)
        values.append(paired_difference(draw.normal(size=25), draw.normal(size=25), permutations=400).p_value)
    for bound in (0.01, 0.05, 0.2, 0.5, 0.8):
        slack = 3 * math.sqrt(bound * (1 - bound) / len(values)) + 1 / 400
        assert abs(np.mean(np.array(values) <= bound) - bound) <= slack


def test_a_real_difference_has_a_small_p_value_and_an_interval_without_zero() -> None:
    draw = np.random.default_rng(1)
    hard = draw.normal(0, 5, 40)
    result = paired_difference(hard - 0.5 + draw.normal(0, 0.3, 40), hard)
    assert result.p_value < 0.001
    assert result.difference.high < 0
    # Unpaired, the difficulty of the episodes would drown it.
    assert str(result).endswith("p < 0.001")


def test_few_pairs_are_tested_exactly() -> None:
    result = paired_difference([1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.0])
    assert result.p_value == 2 / 16
    assert paired_difference([1.0], [0.0]).p_value == 1


@pytest.mark.parametrize(
    ("pairs", "chance"),
    [
        (2, "too few to tell from chance: 2 of at least 6 pairs"),
        (5, "too few to tell from chance: 5 of at least 6 pairs"),
        (6, "p = 0.031"),
    ],
)
def test_too_few_pairs_have_no_p_value_in_words(pairs: int, chance: str) -> None:
    result = paired_difference([1.0] * pairs, [0.0] * pairs)

    assert result.chance == chance
    assert str(result).endswith(f", {chance}")


def test_no_difference_at_all_is_certain_to_be_none() -> None:
    result = paired_difference([0.5] * 20, [0.5] * 20)
    assert result.p_value == 1
    assert (result.difference.low, result.difference.high) == (0, 0)


def test_episodes_are_paired_by_id_whatever_their_order() -> None:
    ours, theirs = {"a": 1.0, "b": 2.0, "only ours": 99.0}, {"b": 1.5, "a": 0.5, "x": 0.0, "y": 0.0}
    result = paired_difference(ours, theirs)
    assert result.difference.estimate == pytest.approx(0.5)
    assert (result.difference.count, result.unpaired) == (2, 3)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    values = [0.1, 0.4, 0.35, 0.8, 0.2]
    assert bootstrap(values) == bootstrap(values)
    assert bootstrap(values, seed=1) != bootstrap(values, seed=2)
    assert paired_difference(values * 5, [0.3] * 25) == paired_difference(values * 5, [0.3] * 25)


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
        (lambda: bootstrap([1.0, 2.0], level=95), "level is 95"),
        (lambda: bootstrap([1.0, 2.0], samples=0), "samples is 0"),
        (lambda: bootstrap_ratio([1.0, 2.0], [1.0]), "as many denominators"),
        (lambda: bootstrap_ratio([1.0, 2.0], [0.0, 0.0]), "sum to 0"),
        (lambda: paired_difference({"a": 1.0}, {"b": 1.0}), "no episode in common"),
        (lambda: paired_difference([1.0], [1.0, 2.0]), "equal lengths"),
        (lambda: paired_difference({"a": 1.0}, [1.0]), "has ids"),
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


def test_importing_it_does_not_import_numpy() -> None:
    code = "import sys, agentfw.report.statistics; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_long_run_does_not_need_a_matrix_of_all_resamples() -> None:
    import tracemalloc

    values = np.random.default_rng(0).normal(size=200_000)
    tracemalloc.start()
    bootstrap(values, samples=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120_000_000  # all at once it would be 320 MB
