"""How often does a comparison of variants tell two apart, and how often does it where there is no difference?

Users are drawn with a liking of their own, and half of them get each variant. They lead 300 sessions in all, some of
them many and others few, and rate answers in each. After each session the comparison of `agentfw serve variants` is
looked at, and the first time that it is clear counts. Required: variants that differ by 0.15 in liking are told apart
within the 300 sessions, and equal ones in 0.05 of the comparisons at most.

Beside it, the same z-values are looked at by a mixture test (mSPRT), which is valid at any time without a planned end.
How many sessions a difference takes depends on how much sessions differ, which the rows say: how many answers of a
session are rated, how much of the variance is between users, and how many users there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median
from typing import Any

import numpy as np

from agentfw_benchmarks import Options, tell
from agentfw_benchmarks.figures import share_of
from agentfw_plugins.gateway.variants import CONTROL, LEVEL, Comparison, Rated, read_variants, results

SESSIONS, BASE, SPREAD = 300, 0.6, 0.15
SETTINGS = [  # difference, users, rated answers of a session, share of the variance between users
    (0.0, 300, 1, 0.0),
    (0.0, 60, 3, 0.1),
    (0.0, 20, 3, 0.1),
    (0.15, 300, 1, 0.0),
    (0.15, 60, 1, 0.05),
    (0.15, 60, 3, 0.1),
    (0.15, 300, 3, 0.1),
    (0.15, 300, 5, 0.1),
]


def compared(simulations: int, setting: tuple[float, int, int, float], seed: int) -> dict[str, list[int]]:
    """After how many sessions each of the tests was clear, in each of many comparisons, which go on side by side."""
    difference, users, answers, between = setting
    draw, each = np.random.default_rng([seed, SETTINGS.index(setting)]), np.arange(simulations)
    level = BASE + difference * (np.arange(users) % 2 - 0.5)
    liking = level + draw.normal(0, math.sqrt(between * BASE * (1 - BASE)), (simulations, users))
    liking, often = liking.clip(0.01, 0.99), draw.gamma(1.5, 1.0, (simulations, users)).cumsum(axis=1)
    sums, counts = np.zeros((2, simulations, users))
    clear = {name: np.full(simulations, SESSIONS + 1) for name in ("planned", "mixture")}
    first: list[Rated] = []
    lowest, highest = np.full(simulations, np.inf), np.full(simulations, -np.inf)
    for number in range(1, SESSIONS + 1):
        user = (often < draw.random((simulations, 1)) * often[:, -1:]).sum(axis=1)
        value = draw.binomial(answers, liking[each, user]) / answers
        sums[each, user] += value
        counts[each, user] += 1
        lowest, highest = np.minimum(lowest, value), np.maximum(highest, value)
        first.append(Rated("", f"u{user[0]}", (CONTROL, "other")[user[0] % 2], float(value[0])))
        apart, z = _z(sums, counts, highest - lowest)
        information = np.divide(z * SPREAD, apart, out=np.zeros_like(z), where=apart != 0) ** 2
        mixture = z**2 / 2 * information / (1 + information) - np.log1p(information) / 2
        needed = NormalDist().inv_cdf(1 - LEVEL / 4) * math.sqrt(SESSIONS / number)
        for name, found in (("planned", np.abs(z) >= needed), ("mixture", mixture >= math.log(1 / LEVEL))):
            clear[name][found & (clear[name] > number)] = number
    # It is the test of the gateway that is measured.
    [_, result] = results(first, Comparison(read_variants(["other:model=other"]), sessions=SESSIONS))
    assert math.isclose(result.z, z[0], rel_tol=1e-9), (result, z[0])
    return {name: times.tolist() for name, times in clear.items()}


def _z(sums: np.ndarray, counts: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The differences of the means, and their z-values."""
    means, variances, effective = [], [], []
    with np.errstate(divide="ignore", invalid="ignore"):
        for own in (slice(0, None, 2), slice(1, None, 2)):
            total = counts[:, own].sum(axis=1)
            mean = sums[:, own].sum(axis=1) / total
            size = total**2 / (counts[:, own] ** 2).sum(axis=1)
            squares = ((sums[:, own] - counts[:, own] * mean[:, None]) ** 2).sum(axis=1)
            variances.append(np.maximum(squares / total**2 * size / (size - 1), (spread / size) ** 2 / 4))
            means.append(mean)
            effective.append(size)
        apart, variance = means[1] - means[0], variances[0] + variances[1]
        t, freedom = apart / np.sqrt(variance), effective[0] + effective[1] - 2
        z = (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(t * t / freedom)) * np.sign(t)
    known = (np.minimum(*effective) >= 3) & (variance > 0) & np.isfinite(variance) & np.isfinite(z)
    return np.where(known, apart, 0.0), np.where(known, z, 0.0)


def measured(simulations: int, seed: int) -> dict[str, Any]:
    rows = []
    for setting in SETTINGS:
        found = compared(simulations, setting, seed)
        names = ("difference", "users", "rated answers", "variance between users")
        row: dict[str, Any] = dict(zip(names, setting, strict=True))
        for test, times in found.items():
            row[f"{test}: clear"] = share_of(sum(time <= SESSIONS for time in times), simulations)
            row[f"{test}: median sessions"] = int(median(times))
        rows.append(row)
    return {"simulations": simulations, "sessions": SESSIONS, "rows": rows}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, simulations=500, seed=7).parse_args(arguments)
    return tell(measured(options.simulations, options.seed), options.json)


if __name__ == "__main__":
    main()
