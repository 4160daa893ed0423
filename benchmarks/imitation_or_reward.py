"""When does training by reward beat imitation? One linear policy, few demonstrations, and teachers that err.

    python benchmarks/imitation_or_reward.py
    python benchmarks/imitation_or_reward.py --split validation

A policy of one weight for each visible attribute of the calendar's events, a softmax of their sums, for each held-out
user of three data seeds. Imitation is the most likely weights, given the teacher's choices in the first conflicts of
two years. A teacher errs by following a rule in place of the user (the most senior first), or at random, in a share of
the rounds. Training by reward goes on from there: in each of the 208 conflicts, five times over, eight choices are
drawn, paid 1 where they are right, and compared with each other (GRPO's advantages, one step a conflict). It is told
nothing else. Both are measured on two later years of the same user, by the share of conflicts in which the policy errs.
The rate was chosen on the split `validation`. Differences are of reward to imitation, user by user.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from agentfw.seeds import Seeds
from agentfw_benchmarks import Options, difference_of, mean_of, print_markdown, shown, tell
from agentfw_plugins.worlds.calendar.choice_model import FEATURES, Floats, Prior, matrix, maximum
from agentfw_plugins.worlds.calendar.environment import CalendarSettings
from agentfw_plugins.worlds.calendar.event_attributes import RULES
from agentfw_plugins.worlds.calendar.regular_year import Round

DEMONSTRATIONS = (0, 10, 50, 208)
ERRS = {"never": (0.0,), "by a rule": (0.25, 0.5, 0.75), "at random": (0.25, 0.5, 0.75)}
_YEARS, _SAMPLES, _TIMES, _RATE = 2, 8, 5, 0.3

Conflict = tuple[Floats, int]


def _conflict(shown: Round) -> Conflict:
    return matrix(shown.tags), shown.letters.index(shown.answer)


def _taught(shown: Round, how: str, share: float, draw: random.Random) -> int:
    """Which event the teacher keeps."""
    if draw.random() >= share:
        return shown.letters.index(shown.answer)
    if how == "at random":
        return draw.randrange(len(shown.letters))
    events = [{"letter": letter, **tags} for letter, tags in zip(shown.letters, shown.tags, strict=True)]
    return shown.letters.index(RULES["most_senior"](events)[0])


def imitate(demonstrations: Sequence[Conflict]) -> Floats:
    start = np.zeros(len(FEATURES))
    if not demonstrations:
        return start
    shown, kept = zip(*demonstrations, strict=True)
    return maximum(Prior.flat(), shown, kept, start)[0]


def reward(weights: Floats, conflicts: Sequence[Conflict], seed: int) -> Floats:
    """Train by reward from these weights."""
    weights, draw = weights.copy(), np.random.default_rng(seed)
    for _ in range(_TIMES):
        for rows, answer in conflicts:
            powers = np.exp(rows @ weights - (rows @ weights).max())
            shares = powers / powers.sum()
            chosen = draw.choice(len(rows), _SAMPLES, p=shares)
            right = (chosen == answer).astype(float)
            if 0 < right.mean() < 1:
                advantages = (right - right.mean()) / right.std()
                weights += _RATE * advantages @ (rows[chosen] - shares @ rows) / _SAMPLES
    return weights


def error(weights: Floats, conflicts: Sequence[Conflict]) -> float:
    return float(np.mean([(rows @ weights).argmax() != answer for rows, answer in conflicts]))


def measure(seeds: Sequence[int], split: str) -> dict[str, Any]:
    errors: dict[tuple[str, float, int], tuple[list[float], list[float]]] = {}
    for seed in seeds:
        dataset = CalendarSettings(data_seed=seed).dataset()
        for name in dataset.users(split):
            user = dataset.user(name)
            years = [dataset.calendar(user, year=year).rounds for year in range(2 * _YEARS)]
            past = [shown for year in years[:_YEARS] for shown in year]
            learned, later = map(_conflict, past), [_conflict(shown) for year in years[_YEARS:] for shown in year]
            conflicts = list(learned)
            for how, shares in ERRS.items():
                for share in shares:
                    draw = Seeds(seed).random("teacher", name, how)
                    taught = [(conflicts[at][0], _taught(shown, how, share, draw)) for at, shown in enumerate(past)]
                    for count in DEMONSTRATIONS if how == "never" else DEMONSTRATIONS[2:]:
                        start = imitate(taught[:count])
                        found = errors.setdefault((how, share, count), ([], []))
                        found[0].append(error(start, later))
                        found[1].append(error(reward(start, conflicts, seed), later))
    rows = [
        {
            "errs": how,
            "share": share,
            "demonstrations": count,
            "imitation": mean_of(imitated),
            "reward": mean_of(rewarded),
            "difference": difference_of(rewarded, imitated),
        }
        for (how, share, count), (imitated, rewarded) in errors.items()
    ]
    return {"seeds": list(seeds), "split": split, "users": len(next(iter(errors.values()))[0]), "rows": rows}


def show(result: dict[str, Any]) -> None:
    print(f"{result['users']} users of the split {result['split']}, data seeds {result['seeds']}; 95% over users")
    heads = ["the teacher errs", "in", "demonstrations", "imitation", "reward from there", "difference"]
    rows = []
    for row in result["rows"]:
        figures = [shown(row["imitation"]), shown(row["reward"]), shown(row["difference"], "+.3f")]
        rows.append([row["errs"], f"{row['share']:.0%}", row["demonstrations"], *figures])
    print_markdown(heads, rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, seeds=[1, 2, 3], split="test").parse_args(arguments)
    return tell(measure(options.seeds, options.split), options.json, show)


if __name__ == "__main__":
    main()
