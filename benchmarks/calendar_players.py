"""How well who plays the calendar: programs that know more or less of the user, the shipped model, and what it learned.

    python benchmarks/calendar_players.py honesty                # ten held-out users; docs/results/calendar.md
    python benchmarks/calendar_players.py honesty --worlds 10    # and those of nine more worlds: a hundred users
    python benchmarks/calendar_players.py tiny                   # docs/results/tiny.md: data seeds 1 to 5
    python benchmarks/calendar_players.py tiny --organisations benchmarks/organisations   # a law firm and a school
    python benchmarks/calendar_players.py imitation              # three data seeds
    python benchmarks/calendar_players.py honesty --fit          # fit anew what `linear` expects: training users only
    python benchmarks/calendar_players.py tiny --fit             # fit anew what the teacher expects of a role

`honesty` is the error of everybody who doesn't know the user, and of those who do. Nobody in the table sees more than
the row says.

`tiny` is the shipped model with its StrategyHub, and the program that taught it. All of them are engaged with the same
users and rounds, and read the same words.

`imitation` trains a softmax policy with one weight for each visible attribute of the events, for each held-out user.
Imitation is the most likely weights, given the teacher's choices in the first conflicts of two years. A teacher errs by
following a rule in place of the user (the most senior first), or at random, in a share of the rounds. Training by
reward goes on from there: in each of the 208 conflicts, five times over, eight choices are drawn, paid 1 where they are
right, and compared with each other (GRPO's advantages, one step a conflict). Both are measured on two later years of
the same user. The rate was chosen on the split `validation`. Differences are of reward to imitation, user by user.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

# One thread each: the matrices are tiny, and two processes share two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from agentfw import Engagement, Episode, Policy, PolicyAgent, Task
from agentfw.interfaces import EventDriven
from agentfw.report.statistics import bootstrap, bootstrap_ratio
from agentfw.runs import in_processes
from agentfw.seeds import Seeds
from agentfw_benchmarks import ROOT, Options, difference_of, mean_of, print_aligned, tell
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings
from agentfw_plugins.worlds.calendar.baselines import CHECKPOINTS, RULE_TITLES, quarters, rank_distance
from agentfw_plugins.worlds.calendar.choice_model import FEATURES, FITTED, ChoiceLearner, Floats, Prior, matrix, maximum
from agentfw_plugins.worlds.calendar.dataset import Calendar, Dataset
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts, CalendarSettings
from agentfw_plugins.worlds.calendar.event_attributes import LETTERS, RULES
from agentfw_plugins.worlds.calendar.policies import PRIOR_FILE, fitted_prior
from agentfw_plugins.worlds.calendar.regular_year import Round

sys.path.insert(0, str(ROOT / "model_making"))
from calendar_teacher import NAMES, ROLES_FILE, TeacherPolicy, TeacherSettings, terms

PLAYERS = ("tiny + strategyhub", "teacher + strategyhub", "teacher, expecting nothing")
DEMONSTRATIONS = (0, 10, 50, 208)
ERRS = {"never": (0.0,), "by a rule": (0.25, 0.5, 0.75), "at random": (0.25, 0.5, 0.75)}
_YEARS, _SAMPLES, _TIMES, _RATE = 2, 8, 5, 0.3
_POINT = 3.5
"""What one of the choice model's points is in the teacher's weights; the best on training users."""

Conflict = tuple[Floats, int]


@dataclass(frozen=True)
class Played:
    """One user's year as one player played it."""

    errors: list[float]
    distances: list[float]


Row = dict[str, Any]
"""One player over all users."""


# Programs that know more or less


def play_all(calendar: Calendar) -> dict[str, Played]:
    """Everybody plays one user's year."""
    user = calendar.user
    role, known = user.role.principles, user.organisation.schema.principles
    generator = Seeds(7).random("honesty", user.id)
    expected = fitted_prior().of(f"{user.organisation.schema.archetype}/{user.role.title}")
    learners = {"linear, expecting nothing": ChoiceLearner(Prior.flat()), "linear": ChoiceLearner(expected)}
    rankings: dict[str, list[list[int]]] = {}

    def note(name: str, values: Sequence[float]) -> None:
        rankings.setdefault(name, []).append(sorted(range(len(values)), key=lambda place: -values[place]))

    for conflict in calendar.rounds:
        rows = matrix(conflict.tags)
        note("random", [generator.random() for _ in conflict.events])
        events = [{"letter": letter, **tags} for letter, tags in zip(LETTERS, conflict.tags, strict=False)]
        for rule, name in RULE_TITLES.items():
            order = RULES[rule](events)
            note(name, [-order.index(event["letter"]) for event in events])
        by_role = [sum(weight for name, weight in role.items() if known[name].triggers(tags)) for tags in conflict.tags]
        note("knows the role, not the user", by_role)
        note("as others of the role chose", list(rows @ expected.mean))
        for name, learner in learners.items():
            note(name, list(learner.values(rows)))
            learner.observe(rows, conflict.accepted)
        note("the truth", [user.value(tags) for tags in conflict.tags])
    return {name: _played(calendar, some) for name, some in rankings.items()}


def _played(calendar: Calendar, rankings: Sequence[Sequence[int]]) -> Played:
    errors, distances = [], []
    for conflict, order in zip(calendar.rounds, rankings, strict=True):
        errors.append(float(order[0] != conflict.accepted))
        distances.append(rank_distance(conflict.answer, [LETTERS[place] for place in order], len(order)))
    return Played(errors, distances)


def _job(job: tuple[int, str]) -> dict[str, Played]:
    dataset = Dataset(job[0])
    return play_all(dataset.calendar(dataset.user(job[1]), conflicts=5))


def honesty(worlds: int) -> dict[str, Row]:
    jobs = [(seed, name) for seed in range(7, 7 + worlds) for name in Dataset(seed).users("test")]
    found = in_processes(_job, jobs, 2)
    return {name: row_of([one[name] for one in found]) for name in found[0]}


def row_of(played: Sequence[Played]) -> Row:
    errors = np.array([one.errors for one in played])
    parts = np.array([quarters(one.errors) for one in played])
    overall = bootstrap(errors.mean(axis=1))
    first, last = parts[:, 0], parts[:, -1]
    return {
        "users": len(played),
        "aer": {str(count): float(errors[:, :count].mean()) for count in CHECKPOINTS},
        "low": overall.low,
        "high": overall.high,
        "ord": float(np.mean([one.distances for one in played])),
        "quarters": [float(value) for value in parts.mean(axis=0)],
        # Of the mean errors: a ratio for each user would swing wildly where the first quarter has few errors.
        "error_reduction": bootstrap_ratio(first - last, first).estimate if first.any() else 0.0,
    }


# The model that ships


async def years(policy: Policy, users: Sequence[str], settings: CalendarSettings) -> list[Episode]:
    """A year of each user."""
    memory = StrategyHubMemory(StrategyHubSettings(show=True))

    async def year(index: int, user: str) -> Episode:
        agent = PolicyAgent(policy, memories=[memory], window=5, recall=memory.settings.capacity)
        task = Task(index, seed=index, user=user, split="test")
        return await Engagement(CalendarConflicts(settings), agent, EventDriven()).run(task)

    return list(await asyncio.gather(*(year(index, user) for index, user in enumerate(users))))


def play(player: str, model: str, worlds: int, users: int, rounds: int, organisations: str) -> list[Played]:
    """One player's years with the held-out users of each world."""
    teacher = TeacherPolicy(TeacherSettings(prior="flat" if "nothing" in player else "fitted"))
    policy, found = TinyPolicy(TinySettings(model=model)) if player.startswith("tiny") else teacher, list[Played]()
    for seed in range(1, 1 + worlds):
        settings = CalendarSettings(rounds=rounds, data_seed=seed, organisations=organisations)
        names = settings.dataset().users("test")[:users]
        episodes = asyncio.run(years(policy, names, settings))
        found += [Played(list(one.series("error")), list(one.series("ord"))) for one in episodes]
    return found


def tiny(model: str, worlds: int, users: int, rounds: int, organisations: str = "") -> dict[str, Row]:
    years_of = partial(play, model=model, worlds=worlds, users=users, rounds=rounds, organisations=organisations)
    played = zip(PLAYERS, in_processes(years_of, PLAYERS, 2), strict=True)
    return {name: row_of(some) for name, some in played}


# What is expected of a user before they have chosen


def fit_prior(
    users: Sequence[tuple[str, Sequence[tuple[Floats, int]]]], *, rounds: int = 8, pull: float = 3.0
) -> Prior:
    """Fit the prior from users' choices by empirical Bayes (expectation maximisation).

    `users` are (role, choices). A role's mean is shrunk towards the general one as if `pull` average users were in it.
    """
    width = users[0][1][0][0].shape[1]
    prior = Prior(np.zeros(width), np.ones(width), {})
    known: dict[int, Floats] = {}
    for _ in range(rounds):
        found: dict[str, list[tuple[Floats, Floats]]] = {}
        for number, (role, choices) in enumerate(users):
            own = prior.of(role)
            start = known.get(number, own.mean)
            weights, curvature = maximum(own, [rows for rows, _ in choices], [kept for _, kept in choices], start)
            known[number] = weights
            found.setdefault(role, []).append((weights, np.diag(np.linalg.inv(curvature))))
        everybody = [pair for pairs in found.values() for pair in pairs]
        mean: Floats = np.mean([weights for weights, _ in everybody], axis=0)
        roles = {
            role: (np.sum([weights for weights, _ in pairs], axis=0) + pull * mean) / (len(pairs) + pull)
            for role, pairs in sorted(found.items())
        }
        spread = [
            (weights - roles[role]) ** 2 + variance for role, pairs in found.items() for weights, variance in pairs
        ]
        prior = Prior(mean, np.maximum(np.mean(spread, axis=0), 1e-3), roles)
    return prior


def fit(what: str, users: int) -> None:
    """Fit what `linear`, or the teacher, expects: the weights that explain best what training users chose."""
    names = Dataset(7).users("train")[:users]
    prior = fit_prior(in_processes(partial(_choices, what), names, 2))
    made_by = f"python benchmarks/calendar_players.py {what} --fit --users {users}"
    about = {"made_by": made_by, "users": len(names), "split": "train", "data_seed": 7}
    file = PRIOR_FILE if what == "honesty" else ROLES_FILE
    record: dict[str, Any] = {"about": about}
    if what == "honesty":

        def rounded(values: Floats) -> list[float]:
            return [round(float(value), 3) for value in values[: len(FITTED)]]

        record |= {"features": list(FITTED), "mean": rounded(prior.mean), "variance": rounded(prior.variance)}
        record["roles"] = {name: rounded(prior.roles[name]) for name in sorted(prior.roles)}
    else:
        record["roles"] = {role: _rounded(means) for role, means in prior.roles.items()} | {
            "anybody": _rounded(prior.mean)
        }
    file.write_text(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n", "utf-8")
    print(f"{file.name}: fitted on the choices of {len(names)} training users", file=sys.stderr)


def _choices(what: str, name: str) -> tuple[str, list[tuple[Floats, int]]]:
    """The role of a user, and of each round what its events are, or what they trigger, and which was kept."""
    dataset = Dataset(7)
    calendar = dataset.calendar(dataset.user(name), conflicts=5)
    role = f"{calendar.user.organisation.schema.archetype}/{calendar.user.role.title}"
    rows = matrix if what == "honesty" else _triggered
    return role, [(rows(one.tags), one.accepted) for one in calendar.rounds]


def _triggered(tags: Sequence[Mapping[str, str]]) -> Floats:
    return np.array([[float(name in terms(one)) for name in NAMES] for one in tags])


def _rounded(means: np.ndarray) -> dict[str, int]:
    return {name: round(_POINT * float(mean)) for name, mean in zip(NAMES, means, strict=True)}


# Imitation, and reward from there


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


def imitation(seeds: Sequence[int]) -> dict[str, Any]:
    errors: dict[tuple[str, float, int], tuple[list[float], list[float]]] = {}
    for seed in seeds:
        dataset = CalendarSettings(data_seed=seed).dataset()
        for name in dataset.users("test"):
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
    return {"seeds": list(seeds), "users": len(next(iter(errors.values()))[0]), "rows": rows}


def show(table: dict[str, Row]) -> None:
    users = next(iter(table.values()))["users"]
    print(f"{users} users; the interval is that of AER@104, 95%, bootstrapped over users\n")
    heads = ["", *(f"AER@{count}" for count in CHECKPOINTS), "from - to", "ORD", "by quarter", "reduction"]
    rows = []
    for name, row in table.items():
        figures = [f"{row['aer'][str(count)]:.2f}" for count in CHECKPOINTS]
        parts = " ".join(f"{value:.2f}" for value in row["quarters"])
        span = f"{row['low']:.2f} - {row['high']:.2f}"
        rows.append([name, *figures, span, f"{row['ord']:.2f}", parts, f"{row['error_reduction']:.2f}"])
    print_aligned(heads, rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        worlds=(0, "number of data seeds; default: 1 from 7 on, with `tiny` 5 from 1 on; ten held-out users each"),
        users=(0, "number of a world's held-out users (10) or, with --fit, of training users (200)"),
        rounds=(104, "of `tiny`"),
        model=("tiny", "of `tiny`: a folder, or tiny"),
        organisations=("", "of `tiny`: directory of organisations; default: those that ship"),
        fit=(False, "fit what is expected of a user instead, on training users"),
        seeds=[1, 2, 3],
    )
    parser.add_argument("what", choices=("honesty", "tiny", "imitation"))
    given = parser.parse_args(arguments)
    if given.what == "imitation":
        return tell(imitation(given.seeds), given.json)
    if given.fit:
        fit(given.what, given.users or 200)
        return {}
    if given.what == "tiny":
        table = tiny(given.model, given.worlds or 5, given.users or 10, given.rounds, given.organisations)
        return tell(table, given.json, show)
    return tell({"players": honesty(given.worlds or 1)}, given.json, lambda found: show(found["players"]))


if __name__ == "__main__":
    main()
