"""Whether the interest and conformity branches find the cause of each like, on generated likes with known causes.

    python benchmarks/preference_causes.py
    python benchmarks/preference_causes.py --seeds 2 --users 200 --json

Each user has a favourite topic and a share of likes that come from popularity instead. A like of interest is of the
topic, no matter who else likes the item. A like of conformity is of a popular item, no matter its topic. Topic and
popularity of an item are independent. The more the standardised score of the interest branch exceeds that of the
conformity branch, the more a like counts as interest. The model sees only users and items; causes are used for the
evaluation alone.

| row | what classifies the likes |
| --- | --- |
| branches | the model with its defaults |
| without weighting | the same model without popularity weighting in both branches |
| unpopularity alone | the number of other users who like the item; knows nothing about the user |
| the truth | topics, popularity and each user's share: the best possible on average |

The figure is the area under the ROC curve, with a bootstrapped 95% interval over the seeds. The target is at least 0.8
for the branches, and no better than chance without weighting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentfw_benchmarks import Options, difference_of, mean_of, print_aligned, shown, tell
from agentfw_rewardmodels import PreferenceModel, PreferenceSettings

TOPICS = 10


@dataclass(frozen=True, slots=True)
class World:
    likes: list[tuple[str, str]]
    interested: np.ndarray[Any, np.dtype[np.bool_]]
    unpopularity: np.ndarray[Any, np.dtype[np.float64]]
    truth: np.ndarray[Any, np.dtype[np.float64]]


def auc(scores: Sequence[float] | NDArray[Any], positive: Sequence[bool] | NDArray[np.bool_]) -> float:
    """Return how often a positive scores above a negative. Ties count half."""
    values, kinds = np.asarray(scores, np.float64), np.asarray(positive, bool)
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    above = int(kinds.sum())
    below = len(kinds) - above
    return float((ranks[kinds].sum() - above * (above + 1) / 2) / (above * below))


def world(users: int, items: int, likes: int, seed: int) -> World:
    generator = np.random.default_rng([seed, 11])
    topic = generator.permutation(items) % TOPICS
    fame = 1.0 / (1 + generator.permutation(items))
    fame /= fame.sum()
    favourite, share = generator.integers(0, TOPICS, users), generator.uniform(0.2, 0.8, users)
    rows: list[tuple[int, int, bool, float]] = []
    for user in range(users):
        own = (topic == favourite[user]) / (topic == favourite[user]).sum()
        seen: set[int] = set()
        while len(seen) < likes:
            interested = bool(generator.random() >= share[user])
            item = int(generator.choice(items, p=own if interested else fame))
            if item in seen:
                if interested and len(seen & set(np.flatnonzero(own).tolist())) == (own > 0).sum():
                    break
                continue
            seen.add(item)
            wanted = (1 - share[user]) * own[item]
            rows.append((user, item, interested, wanted / (wanted + share[user] * fame[item])))
    counts = np.bincount([item for _, item, _, _ in rows], minlength=items)
    return World(
        [(f"u{user}", f"i{item}") for user, item, _, _ in rows],
        np.array([interested for _, _, interested, _ in rows]),
        np.array([-float(counts[item]) for _, item, _, _ in rows]),
        np.array([chance for _, _, _, chance in rows]),
    )


def branches(made: World, settings: PreferenceSettings) -> float:
    model = PreferenceModel.fit(made.likes, settings=settings)
    scores = model.score_items([user for user, _ in made.likes], [item for _, item in made.likes])
    return auc(scores.interest_z - scores.conformity_z, made.interested)


def measure(users: int, items: int, likes: int, seeds: int, settings: PreferenceSettings) -> dict[str, Any]:
    figures: dict[str, list[float]] = {}
    for seed in range(seeds):
        made, seeded = world(users, items, likes, seed), replace(settings, seed=seed)
        for row, value in {
            "branches": branches(made, seeded),
            "without weighting": branches(made, replace(seeded, popularity_weighting=False)),
            "unpopularity alone": auc(made.unpopularity, made.interested),
            "the truth": auc(made.truth, made.interested),
        }.items():
            figures.setdefault(row, []).append(value)
    rows = [{"row": name, "auc": mean_of(values), "values": values} for name, values in figures.items()]
    gain = difference_of(figures["branches"], figures["without weighting"])
    size = {"users": users, "items": items, "likes": likes, "seeds": seeds}
    return {**size, "rows": rows, "gain": gain}


def show(result: dict[str, Any]) -> None:
    print("{users} users, {items} items, {likes} likes each, {seeds} seeds".format_map(result))
    print_aligned(["area under the curve", "95%"], [[row["row"], shown(row["auc"])] for row in result["rows"]])
    print(f"gain of the weighting {shown(result['gain'], '+.3f')}, p = {result['gain']['p']:.3f}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    epochs = PreferenceSettings().epochs
    parser = Options(__doc__, users=300, items=200, likes=(24, "likes per user"), seeds=5, epochs=epochs)
    options = parser.parse_args(arguments)
    settings = PreferenceSettings(epochs=options.epochs, device="cpu")
    result = measure(options.users, options.items, options.likes, options.seeds, settings)
    return tell(result, options.json, show)


if __name__ == "__main__":
    main()
