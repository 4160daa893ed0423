"""The probe names what is wrong with the weights that are served, and claims nothing that the figures don't bear.

The same faults with a real model are in tests/plugins/policies/test_probe_faults.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy
import pytest

from agentfw.errors import AgentfwError
from agentfw.runs import proof as probe

TOKENS = 48


Row = Iterable[float]


def check(served: Row, trained: Row, base: Row, previous: Row, noise: float | None = None) -> bool:
    return probe.check(list(served), list(trained), list(base), list(previous), noise)


def drawn(seed: int, size: float) -> numpy.ndarray:
    return numpy.random.default_rng(seed).normal(0.0, size, TOKENS)


def versions(update: float, step: float, seed: int = 0) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """Base, the version before the newest, and the newest."""
    base = -3.0 + drawn(seed, 1.0)
    previous = base + drawn(seed + 1, update)
    return base, previous, previous + drawn(seed + 2, step)


def test_base_and_version_before_that_are_alike_are_both_named() -> None:
    base, previous, newest = versions(0.001, 0.5)

    with pytest.raises(AgentfwError, match="can't be told apart"):
        check(previous + drawn(9, 0.01), newest, base, previous, noise=0.01)


def test_other_weights_that_resemble_nothing_get_no_name() -> None:
    base, previous, newest = versions(0.1, 0.03)

    for served in (newest + drawn(9, 0.05), 2 * newest - base, newest - 0.4 * (newest - base)):
        with pytest.raises(AgentfwError, match="neither the newest version nor any other"):
            check(served, newest, base, previous, noise=1e-5)


def test_versions_that_can_not_be_told_apart_prove_nothing() -> None:
    """One token is all but certain: it is as near to one version as to the other, as far as 32 bits can tell."""
    base, _, _ = versions(0.1, 0.1)

    assert not check(base, base, base, base, noise=1e-5)
    assert not check([-3.1e-7], [-2.4e-7], [-1.2e-7], [-3.1e-7], noise=1e-5)


def test_tokens_that_are_all_but_certain_do_not_make_the_others_more() -> None:
    """Of 16 tokens one is uncertain. In 16 bits it was 0.1 off, 7 times the noise of all: of one, that can be."""
    certain = [-1e-4] * 15

    assert check([*certain, -2.6], [*certain, -2.5], [*certain, -0.4], [*certain, -0.4], noise=0.0036)
    with pytest.raises(AgentfwError, match="still serves its base model"):
        check([*certain, -0.4], [*certain, -2.5], [*certain, -0.4], [*certain, -0.4], noise=0.0036)


@pytest.mark.parametrize("count", [1, 16])
@pytest.mark.parametrize("moved", [0.3, 1.0, 3.0])
def test_few_tokens_that_moved_about_as_far_as_the_noise_are_no_fault_by_chance(count: int, moved: float) -> None:
    random, noise, tried, alarms = numpy.random.default_rng(count), 0.01, 500, 0
    for _ in range(tried):
        base = random.normal(-3.0, 1.0, count)
        newest = base + random.normal(0.0, moved * noise, count)
        try:
            check(newest + random.normal(0.0, noise, count), newest, base, base, noise)
        except AgentfwError:
            alarms += 1
    assert alarms <= tried / 100


def test_values_that_are_missing_or_no_numbers_are_told() -> None:
    with pytest.raises(AgentfwError, match="1 logprobs on one side and 2 on the other"):
        check([-1.0], [-1.0, -2.0], [-1.0, -2.0], [-1.0, -2.0])
    with pytest.raises(AgentfwError, match="not a number"):
        check([-1.0, float("nan")], [-1.0, -2.0], [-1.0, -2.0], [-1.0, -2.0])


def test_with_many_tokens_a_version_is_told_from_one_that_is_hardly_further_away_than_noise() -> None:
    many, noise = 512, 0.01
    for seed in range(20):
        random = numpy.random.default_rng(seed)
        base, update = random.normal(-3.0, 1.0, many), random.normal(0.0, 1.3 * noise, many)
        served = base + random.normal(0.0, noise, many)

        with pytest.raises(AgentfwError, match="still serves its base model"):
            check(served, base + update, base, base, noise)
        assert not check(served + update, base + update, base, base, noise), "and the right one is no fault"
