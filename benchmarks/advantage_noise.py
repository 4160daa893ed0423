"""How much of a judge's noise becomes an advantage, and how much of a real difference stays one?

    python benchmarks/advantage_noise.py                   # docs/reference/optimizers.md, some seconds
    python benchmarks/advantage_noise.py --json

GRPO divides by the standard deviation of a group. Where all samples are equally good, that is the standard deviation of
the noise, so noise becomes as large as a real difference. A floor under the standard deviation is what keeps it small.

Batches of 16 groups of 8 samples. In half of the groups each sample succeeds or fails, by chance, and a success is
worth `gap`. In the others all samples are equally good. Every reward has normal noise of the given standard deviation.

    noise     size of the advantages where all are equally good, as a share of that where samples succeed or fail and a
              success is worth 1
    kept      size of the advantages of a gap without noise, as a share of what it is without any floor

The one rule: all ways to divide get the same rewards. The default is what the optimizers use (`arithmetic.normalised`).
Figures are means over the seeds, and vary by less than the last digit from one set of seeds to another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from agentfw.seeds import Seeds
from agentfw_benchmarks import Options, print_markdown, tell
from agentfw_plugins.optimizers.relative import FLOOR, centred, normalised, spread

GROUPS, SAMPLES = 16, 8
NOISES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
GAPS = (1.0, 0.1, 0.01, 0.001)

Divide = Callable[[Sequence[float]], list[float]]


def plus(epsilon: float) -> Divide:
    """By the standard deviation plus a constant, as TRL does."""
    return lambda values: [value / (spread(values) + epsilon) for value in centred(values)]


def with_floor(floor: float) -> Divide:
    return lambda values: normalised(values, floor)


WAYS: dict[str, Divide] = {
    "s + 1e-6": plus(1e-6),
    "s + 1e-4 (TRL)": plus(1e-4),
    "s + 1e-3": plus(1e-3),
    f"sqrt(s^2 + {FLOOR:g}^2), the default": with_floor(FLOOR),
    "sqrt(s^2 + 1e-2^2)": with_floor(1e-2),
    "1 (`dr_grpo`)": centred,
}


def batch(seed: int, gap: float) -> list[list[float]]:
    """What the samples are worth: half of the groups succeed by chance, the others altogether."""
    draw = Seeds(seed).numpy("worth")
    worth = draw.random((GROUPS, SAMPLES)) < draw.uniform(0.2, 0.8, (GROUPS, 1))
    worth[GROUPS // 2 :] = draw.random((GROUPS - GROUPS // 2, 1)) < 0.5
    values: list[list[float]] = (gap * worth).tolist()
    return values


def noisy(worth: Sequence[Sequence[float]], seed: int, noise: float) -> list[list[float]]:
    values: list[list[float]] = (
        np.array(worth) + noise * Seeds(seed).numpy("noise").normal(size=(GROUPS, SAMPLES))
    ).tolist()
    return values


def size(advantages: Sequence[Sequence[float]]) -> float:
    return float(np.abs(advantages).mean())


def noise_of(divide: Divide, seed: int, deviation: float) -> float:
    found = [divide(group) for group in noisy(batch(seed, 1.0), seed, deviation)]
    return size(found[GROUPS // 2 :]) / size(found[: GROUPS // 2])


def kept(divide: Divide, seed: int, gap: float) -> float:
    told_apart = [group for group in batch(seed, gap)[: GROUPS // 2] if spread(group)]
    return size([divide(group) for group in told_apart]) / size([normalised(group, 0.0) for group in told_apart])


def row(way: str, seeds: range) -> dict[str, Any]:
    divide = WAYS[way]
    noises = {f"{one:g}": float(np.mean([noise_of(divide, seed, one) for seed in seeds])) for one in NOISES}
    gaps = {f"{gap:g}": float(np.mean([kept(divide, seed, gap) for seed in seeds])) for gap in GAPS}
    return {"divided by": way, "noise": noises, "kept": gaps if divide is not centred else {}}


def show(rows: Sequence[dict[str, Any]]) -> None:
    print_markdown(
        ["divided by", *(f"noise {one:g}" for one in NOISES), *(f"gap {one:g} kept" for one in GAPS)],
        [
            [one["divided by"], *(f"{value:.3f}" for value in one["noise"].values())]
            + [f"{one['kept'][f'{gap:g}']:.2f}" if one["kept"] else "" for gap in GAPS]
            for one in rows
        ],
    )


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, seeds=200).parse_args(arguments)
    rows = [row(way, range(options.seeds)) for way in WAYS]
    return tell({"seeds": options.seeds, "rows": rows}, options.json, lambda result: show(result["rows"]))


if __name__ == "__main__":
    main()
