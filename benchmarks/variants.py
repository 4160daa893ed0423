"""How often does a comparison of variants tell two apart, and how often does it where there is no difference?

    python benchmarks/variants.py
    python benchmarks/variants.py --simulations 50 --json

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
import random
from collections.abc import Sequence
from statistics import NormalDist, median
from typing import Any

from agentfw_benchmarks import Options, print_markdown, tell
from agentfw_plugins.gateway.variants import CONTROL, Comparison, Rated, read_variants, results

SESSIONS, BASE, SPREAD = 300, 0.6, 0.15
SETTINGS = [  # difference, users, rated answers of a session, share of the variance between users
    (0.0, 300, 1, 0.0),
    (0.0, 60, 3, 0.1),
    (0.15, 300, 1, 0.0),
    (0.15, 60, 3, 0.1),
    (0.15, 300, 3, 0.1),
]


def compared(difference: float, users: int, answers: int, between: float, draw: random.Random) -> dict[str, int]:
    """After how many sessions each of the tests was clear."""
    comparison = Comparison(read_variants(["other:model=other"]), sessions=SESSIONS)
    liking, often = [], []
    for user in range(users):
        level = BASE + difference * (user % 2 - 0.5) + draw.gauss(0, math.sqrt(between * BASE * (1 - BASE)))
        liking.append(min(0.99, max(0.01, level)))
        often.append(draw.gammavariate(1.5, 1.0))
    rated, clear = list[Rated](), dict[str, int]()
    for number in range(1, SESSIONS + 1):
        [user] = draw.choices(range(users), often)
        value = sum(draw.random() < liking[user] for _ in range(answers)) / answers
        rated.append(Rated("", f"u{user}", (CONTROL, "other")[user % 2], value))
        [_, found] = results(rated, comparison)
        if found.clear:
            clear.setdefault("planned", number)
        if found.z:
            information = (found.z / found.difference * SPREAD) ** 2
            mixture = found.z**2 / 2 * information / (1 + information) - math.log1p(information) / 2
            if mixture >= math.log(20):
                clear.setdefault("mixture", number)
        if len(clear) == 2:
            break
    return clear


def share(count: int, of: int) -> str:
    """A share with Wilson's 95% interval."""
    z, p = NormalDist().inv_cdf(0.975), count / of
    middle = (p + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    return f"{p:.3f} [{middle - half:.3f}, {middle + half:.3f}]"


def measured(simulations: int, seed: int) -> dict[str, Any]:
    rows = []
    for difference, users, answers, between in SETTINGS:
        draw = random.Random(f"{seed} {difference} {users} {answers} {between}")
        found = [compared(difference, users, answers, between, draw) for _ in range(simulations)]
        row: dict[str, Any] = {"difference": difference, "users": users, "rated answers a session": answers}
        row["variance between users"] = between
        for test in ("planned", "mixture"):
            times = [one[test] for one in found if test in one]
            row[f"{test}: clear"] = share(len(times), simulations)
            row[f"{test}: sessions, median"] = int(median([one.get(test, SESSIONS + 1) for one in found]))
        rows.append(row)
    return {"simulations": simulations, "sessions": SESSIONS, "rows": rows}


def show(found: dict[str, Any]) -> None:
    print(f"{found['simulations']} comparisons of {found['sessions']} sessions each, looked at after every session")
    rows = [[str(value) for value in row.values()] for row in found["rows"]]
    print_markdown([*found["rows"][0]], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, simulations=500, seed=7)
    options = parser.parse_args(arguments)
    return tell(measured(options.simulations, options.seed), options.json, show)


if __name__ == "__main__":
    main()
