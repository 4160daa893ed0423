"""Does it pay to learn the user? Satisfaction by day, where tastes are a user's own and nobody stated any.

    python plugins/papers/benchmarks/assistant_rise.py --work FOLDER
    python plugins/papers/benchmarks/assistant_rise.py --work FOLDER --tastes shared

Test users whom nobody knows make a request a day. The program `assistant-linear` decides, with the weights that
`agentfw run assistant` starts from, and nothing is trained. The memory learns all the time, or in the first tenth of
the days only, or there is none; and it learns all the time but recalls as MemRL does, or by similarity alone. With
`--tastes own`, a taste is that of the user's circle by chance alone, so that only the user can teach it. With `shared`,
it is that of the circle nine times in ten, as in the world that ships.

Each seed is a world of its own, and nothing was chosen on them. Intervals are over users. What is in FOLDER is not done
again: a command that was broken off goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from agentfw import Host
from agentfw.boundary.settings_input import parse_assignments
from agentfw.runs import apply_assignments
from agentfw_benchmarks import Options, difference_of, mean_of, tell
from agentfw_benchmarks.runs import played, spec_named

AGREEMENT = {"own": 0.0, "shared": 0.9}
FIRST, *OTHERS = "memory learns", "memory stopped", "no memory", "as MemRL", "by similarity"
_VARIANTS = {"no memory": "A1", "as MemRL": "M1", "by similarity": "A2s"}
"""The variants of the shipped loop that say what an arm sets."""
Days = dict[str, dict[int, float]]
"""The satisfaction of each user by day."""


def play(arm: str, seed: int, options: argparse.Namespace, host: Host) -> Days:
    """The ten tenths of the days, one run each. They share what the memory has stored."""
    root = options.work / f"{options.tastes}, {options.users} users, {options.days} days" / f"{arm}, world {seed}"
    days: Days = {}
    variants = spec_named(host, "loop-assistant")["variants"]
    for tenth in range(10):
        requests = options.users * options.days // 10
        world = {"world": seed, "agreement": AGREEMENT[options.tastes], "stated": 0.0, "test_users": options.users}
        spec = spec_named(host, "assistant", episodes=requests, concurrency=options.users, seed=seed, split="test")
        spec = apply_assignments(spec, {"environment": {**world, "skip": tenth * requests}})
        spec = apply_assignments(spec, {"memory": {"skillgraph": {"path": str(root / "skills.db")}}})
        if arm == "memory stopped" and tenth:
            spec = apply_assignments(spec, {"memory": {"skillgraph": {"evolve": False}}})
        if arm in _VARIANTS:
            spec = apply_assignments(spec, parse_assignments(variants[_VARIANTS[arm]]["set"]))
        for record in played(spec, host, root / f"{tenth}").metrics():
            (day,) = (int(name.removeprefix("judge@")) for name in record["outcome"] if name.startswith("judge@"))
            days.setdefault(record["user"], {})[day] = record["outcome"]["satisfaction"]
    return days


def measure(options: argparse.Namespace) -> dict[str, Any]:
    host = Host.load()
    fifths = [range(1 + one * options.days // 5, 1 + (one + 1) * options.days // 5) for one in range(5)]
    found: dict[str, Days] = {arm: {} for arm in (FIRST, *OTHERS)}
    for seed in options.seeds:
        for arm in (FIRST, *OTHERS):
            found[arm] |= {f"{seed} {user}": days for user, days in play(arm, seed, options, host).items()}
    means = {
        arm: [{user: fmean(each[day] for day in days) for user, each in users.items()} for days in fifths]
        for arm, users in found.items()
    }
    first, *_, last = range(len(fifths))
    return {
        "tastes": options.tastes,
        "fifths": [f"{days[0]} to {days[-1]}" for days in fifths],
        "arms": {arm: [mean_of(list(each.values())) for each in several] for arm, several in means.items()},
        "rise": {arm: difference_of(several[last], several[first]) for arm, several in means.items()},
        "leads": {
            arm: [difference_of(*pair) for pair in zip(means[FIRST], several, strict=True)]
            for arm, several in means.items()
            if arm != FIRST
        },
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        work=(Path, "directory for the runs"),
        seeds=([21, 22, 23], "of the worlds"),
        users=(24, "of each world"),
        days=(40, "a multiple of ten"),
    )
    parser.add_argument("--tastes", choices=tuple(AGREEMENT), default="own")
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json)


if __name__ == "__main__":
    main()
