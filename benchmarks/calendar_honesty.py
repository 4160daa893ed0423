"""Is the calendar benchmark honest? The error of everybody who doesn't know the user, and of those who do.

    python benchmarks/calendar_honesty.py                 # ten held-out users; docs/results/calendar.md
    python benchmarks/calendar_honesty.py --worlds 10      # and those of nine more worlds: a hundred users
    python benchmarks/calendar_honesty.py --json
    python benchmarks/calendar_honesty.py --fit            # fit anew what `linear` expects: training users only

The one rule: nobody in the table sees more than the row says. The thresholds of the last lines are fixed; where one
breaks, the engine is changed and not the threshold.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

# One thread each: the matrices are tiny, and two processes share two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from agentfw.report.statistics import bootstrap, bootstrap_ratio
from agentfw.runs import in_processes
from agentfw.seeds import Seeds
from agentfw_benchmarks import Options, print_aligned, tell
from agentfw_benchmarks.prior_fitting import fit_prior, save_prior
from agentfw_plugins.worlds.calendar.baselines import CHECKPOINTS, RULE_TITLES, quarters, rank_distance
from agentfw_plugins.worlds.calendar.choice_model import ChoiceLearner, Prior, matrix
from agentfw_plugins.worlds.calendar.dataset import Calendar, Dataset
from agentfw_plugins.worlds.calendar.event_attributes import LETTERS, RULES
from agentfw_plugins.worlds.calendar.policies import PRIOR_FILE, fitted_prior

SIMPLE = ("earliest first", "most attendees first", "most urgent first", "most senior first")
LEAST_SIMPLE, LEAST_ROLE = 0.35, 0.30


@dataclass(frozen=True)
class Played:
    """One user's year as one player played it."""

    errors: list[float]
    distances: list[float]


@dataclass(frozen=True)
class Row:
    """One player over all users."""

    users: int
    aer: dict[str, float]
    low: float
    high: float
    ord: float
    quarters: list[float]
    error_reduction: float


def play(calendar: Calendar) -> dict[str, Played]:
    """Everybody plays one user's year."""
    user = calendar.user
    role, known = user.role.principles, user.organisation.schema.principles
    generator = Seeds(7).random("honesty", user.id)
    expected = fitted_prior().of(f"{user.organisation.schema.archetype}/{user.role.title}")
    learners = {"linear, expecting nothing": ChoiceLearner(Prior.flat()), "linear": ChoiceLearner(expected)}
    rankings: dict[str, list[list[int]]] = {}

    def note(name: str, values: Sequence[float]) -> None:
        rankings.setdefault(name, []).append(sorted(range(len(values)), key=lambda place: -values[place]))

    for shown in calendar.rounds:
        rows = matrix(shown.tags)
        note("random", [generator.random() for _ in shown.events])
        events = [{"letter": letter, **tags} for letter, tags in zip(LETTERS, shown.tags, strict=False)]
        for rule, name in RULE_TITLES.items():
            order = RULES[rule](events)
            note(name, [-order.index(event["letter"]) for event in events])
        by_role = [sum(weight for name, weight in role.items() if known[name].triggers(tags)) for tags in shown.tags]
        note("knows the role, not the user", by_role)
        note("as others of the role chose", list(rows @ expected.mean))
        for name, learner in learners.items():
            note(name, list(learner.values(rows)))
            learner.observe(rows, shown.accepted)
        note("the truth", [user.value(tags) for tags in shown.tags])
    return {name: _played(calendar, some) for name, some in rankings.items()}


def _played(calendar: Calendar, rankings: Sequence[Sequence[int]]) -> Played:
    errors, distances = [], []
    for shown, order in zip(calendar.rounds, rankings, strict=True):
        errors.append(float(order[0] != shown.accepted))
        distances.append(rank_distance(shown.answer, [LETTERS[place] for place in order], len(order)))
    return Played(errors, distances)


def _job(conflicts: int, job: tuple[int, str]) -> dict[str, Played]:
    dataset = Dataset(job[0])
    return play(dataset.calendar(dataset.user(job[1]), conflicts=conflicts))


def measure(worlds: int, conflicts: int) -> dict[str, Row]:
    jobs = [(seed, name) for seed in range(7, 7 + worlds) for name in Dataset(seed).users("test")]
    found = in_processes(partial(_job, conflicts), jobs, 2)
    return {name: row_of([one[name] for one in found]) for name in found[0]}


def row_of(played: Sequence[Played]) -> Row:
    errors = np.array([one.errors for one in played])
    parts = np.array([quarters(one.errors) for one in played])
    overall = bootstrap(errors.mean(axis=1))
    first, last = parts[:, 0], parts[:, -1]
    return Row(
        len(played),
        {str(count): float(errors[:, :count].mean()) for count in CHECKPOINTS},
        overall.low,
        overall.high,
        float(np.mean([one.distances for one in played])),
        [float(value) for value in parts.mean(axis=0)],
        # Of the mean errors: a ratio for each user would swing wildly where the first quarter has few errors.
        bootstrap_ratio(first - last, first).estimate if first.any() else 0.0,
    )


def fit(users: int) -> None:
    names = Dataset(7).users("train")[:users]
    choices = in_processes(_choices, names, 2)
    made_by = f"python benchmarks/calendar_honesty.py --fit --users {users}"
    save_prior(
        fit_prior(choices), PRIOR_FILE, {"made_by": made_by, "users": len(names), "split": "train", "data_seed": 7}
    )
    print(f"{PRIOR_FILE.name}: fitted on the choices of {len(names)} training users", file=sys.stderr)


def _choices(name: str) -> tuple[str, list[tuple[Any, int]]]:
    dataset = Dataset(7)
    calendar = dataset.calendar(dataset.user(name))
    role = f"{calendar.user.organisation.schema.archetype}/{calendar.user.role.title}"
    return role, [(matrix(shown.tags), shown.accepted) for shown in calendar.rounds]


def show(table: dict[str, Row]) -> None:
    users = next(iter(table.values())).users
    print(f"{users} users; the interval is that of AER@104, 95%, bootstrapped over users\n")
    heads = ["", *(f"AER@{count}" for count in CHECKPOINTS), "from - to", "ORD", "by quarter", "reduction"]
    rows = []
    for name, row in table.items():
        figures = [f"{row.aer[str(count)]:.2f}" for count in CHECKPOINTS]
        parts = " ".join(f"{value:.2f}" for value in row.quarters)
        span = f"{row.low:.2f} - {row.high:.2f}"
        rows.append([name, *figures, span, f"{row.ord:.2f}", parts, f"{row.error_reduction:.2f}"])
    print_aligned(heads, rows)


def verdict(table: dict[str, Row]) -> list[str]:
    """What would make the benchmark too easy; nothing where it is honest."""
    wrong = [f"{name} errs at {table[name].aer['104']:.2f}" for name in SIMPLE if table[name].aer["104"] < LEAST_SIMPLE]
    role = table["knows the role, not the user"].aer["104"]
    if role < LEAST_ROLE:
        wrong.append(f"knowing the role is enough: {role:.2f}")
    if table["the truth"].aer["104"] != 0.0:
        wrong.append("the truth errs")
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Options(
        __doc__,
        worlds=(1, "how many data seeds, from 7 on; ten held-out users each"),
        fit=(False, "fit the prior of the linear policy on training users first"),
        users=(200, "how many training users --fit takes"),
    )
    parser.add_argument("--conflicts", type=int, default=5, choices=(2, 3, 4, 5), help="events a round (M)")
    given = parser.parse_args(arguments)
    if given.fit:
        fit(given.users)
    table = measure(given.worlds, given.conflicts)
    wrong = verdict(table)

    def show_all(result: object) -> None:
        show(table)
        fine = f"honest: simple rules err at {LEAST_SIMPLE:.2f} or more, the role's reader at {LEAST_ROLE:.2f} or more"
        print("\n" + ("; ".join(["too easy", *wrong]) if wrong else fine))

    players = {name: asdict(row) for name, row in table.items()}
    tell({"conflicts": given.conflicts, "players": players, "too_easy": wrong}, given.json, show_all)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
