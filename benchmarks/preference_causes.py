"""Whether the interest and conformity branches find the cause of each like, on generated likes with known causes.

    python tests/benchmarks/preference_causes.py
    python tests/benchmarks/preference_causes.py --seeds 2 --users 200 --json

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

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agentfw.statistics import Interval, bootstrap, paired_difference
from agentfw_rewardmodels import PreferenceModel, PreferenceSettings
from agentfw_rewardmodels.preference.metrics import auc

TOPICS = 10


@dataclass(frozen=True, slots=True)
class World:
    likes: list[tuple[str, str]]
    interested: np.ndarray[Any, np.dtype[np.bool_]]
    unpopularity: np.ndarray[Any, np.dtype[np.float64]]
    truth: np.ndarray[Any, np.dtype[np.float64]]


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
    gain = paired_difference(figures["branches"], figures["without weighting"])
    rows = [{"row": name, "auc": _plain(bootstrap(values)), "values": values} for name, values in figures.items()]
    size = {"users": users, "items": items, "likes": likes, "seeds": seeds}
    return {**size, "rows": rows, "gain": _plain(gain.difference), "p_value": gain.p_value}


def _plain(interval: Interval) -> dict[str, float]:
    return {"mean": interval.estimate, "low": interval.low, "high": interval.high}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--likes", type=int, default=24, help="Likes per user.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=PreferenceSettings().epochs)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    settings = PreferenceSettings(epochs=options.epochs, device="cpu")
    result = measure(options.users, options.items, options.likes, options.seeds, settings)
    if options.json:
        print(json.dumps(result, indent=2))
        return result
    print(f"{options.users} users, {options.items} items, {options.likes} likes each, {options.seeds} seeds")
    print(f"{'area under the curve':<24}{'mean':>8}{'low':>8}{'high':>8}")
    for row in result["rows"]:
        print(f"{row['row']:<24}" + "".join(f"{row['auc'][name]:>8.3f}" for name in ("mean", "low", "high")))
    gain = result["gain"]
    bounds = f"[{gain['low']:+.3f}, {gain['high']:+.3f}]"
    print(f"gain of the weighting {gain['mean']:+.3f} {bounds}, p = {result['p_value']:.3f}")
    return result


if __name__ == "__main__":
    main()
