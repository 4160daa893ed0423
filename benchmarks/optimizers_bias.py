"""Users whose personal rewards have different centres and scales: how far off are advantages, and what is learned?

    python benchmarks/optimizers_bias.py                   # docs/results/optimizers.md, some minutes
    python benchmarks/optimizers_bias.py --seeds 4 --updates 40 --regimes "groups of 4"
    python benchmarks/optimizers_bias.py --json

The one rule: every optimizer is the one that a training uses, on the same users, tasks and number of samples; and how
large its steps are is tuned for each of them alike, on other seeds than those that are measured.

A task has six answers with four features each. How good an answer is depends on its features and is the same for all;
how much a user likes it depends on that user's taste. What a user says of it is centre + scale x (liking + noise), and
centres (normal, 3) and scales (log-normal, 1) differ from user to user. The policy is a softmax of features times
(M taste + w), so users share all that is learned, and its true advantages are known: half the quality above what the
policy gets for this user and task, half the liking, each in units of its spread (for liking: that of this user).

    error       how far the advantage of a sample is off the truth, over many draws of what it is compared with: both
                how far its mean is off (bias), and how much it varies with them (deviation)
    reached     what the policy gets after training, from 0 (choosing by chance) to 1 (always the best)
    on the way  the mean of that after each quarter of the training: who learns from fewer samples is ahead here

"Parpo nearer by" is the paired difference in error, "parpo ahead by" that on the way.

The error is in units of the true advantages' own size, after each optimizer was multiplied by the one factor
that suits it best: a factor is a matter of the learning rate. Intervals are 95%, bootstrapped over seeds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from agentfw import Episode, Host, Optimizer, Score, Task, Turn
from agentfw.optimizer import Scored
from agentfw.report.statistics import bootstrap, paired_difference
from agentfw.runs import in_processes
from agentfw.seeds import Seeds
from agentfw.testing import fresh_host
from agentfw_benchmarks import Options, print_markdown, tell

Array = np.ndarray[Any, np.dtype[np.float64]]
Rows = list[dict[str, Any]]
Noted = tuple[Array, Array, Array]
"""Of samples their answers, qualities and likings."""

FEATURES, ANSWERS, NOISE = 4, 6, 0.5
TRAINING_USERS, GROUPS = 24, 16
RATES = (0.01, 0.03, 0.1)
TUNING_SEEDS = 3
FIGURES = ("error", "reached", "on the way")
DIFFERENCES = ("parpo nearer by", "parpo ahead by")

OPTIMIZERS: dict[str, tuple[str, dict[str, object]]] = {
    "grpo (C1)": ("grpo", {}),
    "gdpo": ("gdpo", {}),
    "parpo": ("parpo", {}),
    "parpo, no base track (C2)": ("parpo", {"base_weight": 0.0, "personal_weight": 1.0}),
    "parpo, no personal track (C3)": ("parpo", {"base_weight": 1.0, "personal_weight": 0.0}),
    "parpo, no anchor (C4)": ("parpo", {"baseline": "group", "scale": "group"}),
    "parpo: group, anchor scale": ("parpo", {"baseline": "group"}),
    "parpo: max_lower, anchor scale": ("parpo", {"baseline": "max_lower"}),
    "parpo: anchor, anchor scale": ("parpo", {"baseline": "anchor"}),
    "parpo: anchor, group scale": ("parpo", {"baseline": "anchor", "scale": "group"}),
}


@dataclass(frozen=True)
class Regime:
    """How many samples are compared, and of whom."""

    samples: int
    pooled: bool = False
    """One sample each of different users in a group, as in the paper's analysis; else a group is one user's."""


REGIMES = {
    "groups of 8": Regime(8),
    "groups of 4": Regime(4),
    "groups of 2": Regime(2),
    "groups of 1": Regime(1),
    "pooled groups of 8": Regime(8, pooled=True),
}


class People:
    """Some users, what they like, and how they say so."""

    def __init__(self, seeds: Seeds, count: int) -> None:
        generator = seeds.numpy("people")
        self.taste = generator.normal(size=(count, FEATURES)) / np.sqrt(FEATURES)
        self.centre = generator.normal(0.0, 3.0, count)
        self.scale = np.exp(generator.normal(0.0, 1.0, count))


@dataclass
class Tasks:
    """One task for each of some users: the answers' features, quality and liking."""

    users: Array
    features: Array  # task, answer, feature
    quality: Array  # task, answer
    liking: Array  # task, answer

    @classmethod
    def draw(cls, people: People, goodness: Array, users: Array, generator: np.random.Generator, pooled: bool) -> Tasks:
        shape = (1 if pooled else len(users), ANSWERS, FEATURES)
        features = np.broadcast_to(generator.normal(size=shape), (len(users), ANSWERS, FEATURES))
        liking = np.einsum("taf,tf->ta", features, people.taste[users])
        return cls(users, features, features @ goodness, liking)


@dataclass
class Policy:
    """Softmax of features times (M taste + w)."""

    matrix: Array
    vector: Array

    @classmethod
    def fresh(cls) -> Policy:
        return cls(np.zeros((FEATURES, FEATURES)), np.zeros(FEATURES))

    def chances(self, tasks: Tasks, people: People) -> Array:
        weights = people.taste[tasks.users] @ self.matrix.T + self.vector
        logits = np.einsum("taf,tf->ta", tasks.features, weights)
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        return chances / chances.sum(axis=1, keepdims=True)


class Simulation:
    """One world: training users, and batches of scored samples of them."""

    def __init__(self, seed: int, regime: Regime) -> None:
        self.seeds, self.regime = Seeds(seed).child("optimizers"), regime
        self.people = People(self.seeds, TRAINING_USERS)
        direction = self.seeds.numpy("goodness").normal(size=FEATURES)
        self.goodness = direction / np.linalg.norm(direction)

    def tasks(self, generator: np.random.Generator) -> Tasks:
        """A batch of tasks: one a group, or where groups are pooled one a sample, the same for all users of a group."""
        if not self.regime.pooled:
            users = generator.choice(TRAINING_USERS, GROUPS)
            return Tasks.draw(self.people, self.goodness, users, generator, pooled=False)
        parts = []
        for _ in range(GROUPS):
            users = generator.choice(TRAINING_USERS, self.regime.samples, replace=False)
            parts.append(Tasks.draw(self.people, self.goodness, users, generator, pooled=True))
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in Tasks.__annotations__}
        return Tasks(**joined)

    def sample(self, tasks: Tasks, chances: Array, generator: np.random.Generator, first: Noted | None = None) -> Noted:
        """For each task its samples' answers, qualities and likings as noted; the first of each group may be given."""
        count = 1 if self.regime.pooled else self.regime.samples
        drawn = generator.random((len(chances), count, 1))
        answers = (drawn > chances.cumsum(axis=1)[:, None, :-1]).sum(axis=2)
        rows = np.arange(len(chances))[:, None]
        quality = tasks.quality[rows, answers] + NOISE * generator.normal(size=answers.shape)
        liking = tasks.liking[rows, answers] + NOISE * generator.normal(size=answers.shape)
        for values, given in zip((answers, quality, liking), first or (), strict=first is not None):
            self.firsts(values)[:] = given
        return answers, quality, liking

    def firsts(self, values: Array) -> Array:
        """Of values of all samples those of the first of each group."""
        return values[:: self.regime.samples, 0] if self.regime.pooled else values[:, 0]

    def scored(self, tasks: Tasks, quality: Array, liking: Array) -> list[list[Scored]]:
        """The samples as an optimizer gets them."""
        said = self.people.centre[tasks.users, None] + self.people.scale[tasks.users, None] * liking
        size = self.regime.samples if self.regime.pooled else 1
        groups: list[list[Scored]] = []
        for place in range(0, len(quality), size):
            cells = [(row, column) for row in range(place, place + size) for column in range(quality.shape[1])]
            users = [int(tasks.users[row]) for row, _ in cells]
            groups.append([_scored(place, n, users[n], quality[cell], said[cell]) for n, cell in enumerate(cells)])
        return groups

    def advantages(self, optimizer: Optimizer, tasks: Tasks, quality: Array, liking: Array) -> Array:
        found = optimizer.advantages(self.scored(tasks, quality, liking))
        return np.array([one.value for one in found]).reshape(quality.shape)


@cache
def _episode(index: int, sample: int, user: int) -> Episode:
    return Episode(Task(index, 0, user=str(user), sample=sample), turns=[Turn(0, 0, 1, count=1)])


def _scored(index: int, sample: int, user: int, quality: float, said: float) -> Scored:
    episode = _episode(index, sample, user)
    scores = (Score(episode.id, "quality", quality), Score(episode.id, "preference", said, "personal"))
    return Scored(episode, scores, quality + said)


def _optimizer(name: str) -> Optimizer:
    chosen, settings = OPTIMIZERS[name]
    made: Optimizer = _host().create("optimizer", chosen, settings)
    return made


@cache
def _host() -> Host:
    return fresh_host(builtins=True, strict=False)


# -- how far off ------------------------------------------------------------------------------------------------------


def errors(seed: int, regime: Regime, name: str, draws: int) -> dict[str, float]:
    """One world's figures. The policy stands still, half trained; anchors have seen thirty batches before."""
    world, optimizer = Simulation(seed, regime), _optimizer(name)
    generator = world.seeds.numpy("errors")
    policy = Policy(np.eye(FEATURES), world.goodness.copy())

    def batch() -> None:
        tasks = world.tasks(generator)
        _, quality, liking = world.sample(tasks, policy.chances(tasks, world.people), generator)
        world.advantages(optimizer, tasks, quality, liking)

    for _ in range(30):
        batch()
    tasks = world.tasks(generator)
    chances = policy.chances(tasks, world.people)
    noted = world.sample(tasks, chances, generator)
    truth = world.firsts(_truth(world, policy, tasks, chances, noted))
    first = (world.firsts(noted[0]), world.firsts(noted[1]), world.firsts(noted[2]))
    found = np.empty((draws, len(truth)))
    for draw in range(draws):
        batch()
        state = optimizer.state()
        _, quality, liking = world.sample(tasks, chances, generator, first)
        found[draw] = world.firsts(world.advantages(optimizer, tasks, quality, liking))
        optimizer.restore(state)  # a sample that is noted again and again is no part of anybody's history
    size = float((found * found).sum())
    found *= float((found * truth).sum()) / size if size else 0.0
    unit = float(np.sqrt(np.mean(truth * truth)))
    bias = float(np.sqrt(np.mean((found.mean(axis=0) - truth) ** 2))) / unit
    deviation = float(np.sqrt(np.mean(found.var(axis=0)))) / unit
    return {"error": float(np.hypot(bias, deviation))}


def _truth(world: Simulation, policy: Policy, tasks: Tasks, chances: Array, noted: Noted) -> Array:
    """Half the quality and half the liking above what the policy gets, in units of their spread under the policy."""
    _, quality, liking = noted
    expected = [(chances * table).sum(axis=1, keepdims=True) for table in (tasks.quality, tasks.liking)]
    generator = world.seeds.numpy("truth")
    users = np.repeat(np.arange(TRAINING_USERS), 200)
    many = Tasks.draw(world.people, world.goodness, users, generator, pooled=False)
    of_quality, of_liking = (
        _spread(policy.chances(many, world.people), table) for table in (many.quality, many.liking)
    )
    of_user = np.sqrt(of_liking.reshape(TRAINING_USERS, -1).mean(axis=1))
    general = (quality - expected[0]) / np.sqrt(of_quality.mean())
    personal = (liking - expected[1]) / of_user[tasks.users, None]
    return 0.5 * general + 0.5 * personal


def _spread(chances: Array, table: Array) -> Array:
    """The variance of what is noted of one answer to each task."""
    middle = (chances * table).sum(axis=1)
    return (chances * (table - middle[:, None]) ** 2).sum(axis=1) + NOISE**2


# -- what is learned --------------------------------------------------------------------------------------------------


def reached(seed: int, regime: Regime, name: str, updates: int, rate: float) -> list[float]:
    """Train by REINFORCE with Adam, and after each quarter say how good the policy is on new tasks of these users."""
    world, optimizer, policy = Simulation(seed, regime), _optimizer(name), Policy.fresh()
    generator = world.seeds.numpy("training")
    taste = world.people.taste
    steps = [_Adam(rate, policy.matrix), _Adam(rate, policy.vector)]
    shares: list[float] = []
    for update in range(1, updates + 1):
        tasks = world.tasks(generator)
        chances = policy.chances(tasks, world.people)
        answers, quality, liking = world.sample(tasks, chances, generator)
        weights = world.advantages(optimizer, tasks, quality, liking)
        rows = np.arange(len(answers))[:, None]
        surprise = tasks.features[rows, answers] - np.einsum("ta,taf->tf", chances, tasks.features)[:, None]
        pushes = np.einsum("ts,tsf->tf", weights, surprise)
        steps[0].climb(pushes.T @ taste[tasks.users] / weights.size)
        steps[1].climb(pushes.sum(axis=0) / weights.size)
        if update % max(1, updates // 4) == 0:
            shares.append(_share(world, policy))
    return shares


class _Adam:
    """Climbs in place."""

    def __init__(self, rate: float, values: Array) -> None:
        self.rate, self.values, self.count = rate, values, 0
        self.first, self.second = np.zeros_like(values), np.zeros_like(values)

    def climb(self, gradient: Array) -> None:
        self.count += 1
        self.first += 0.1 * (gradient - self.first)
        self.second += 0.001 * (gradient**2 - self.second)
        first, second = self.first / (1 - 0.9**self.count), self.second / (1 - 0.999**self.count)
        self.values += self.rate * first / (np.sqrt(second) + 1e-8)


def _share(world: Simulation, policy: Policy) -> float:
    generator = world.seeds.numpy("evaluation")
    users = np.repeat(np.arange(TRAINING_USERS), 100)
    tasks = Tasks.draw(world.people, world.goodness, users, generator, pooled=False)
    worth = 0.5 * tasks.quality + 0.5 * tasks.liking
    gained = float((policy.chances(tasks, world.people) * worth).sum(axis=1).mean())
    chance, best = float(worth.mean()), float(worth.max(axis=1).mean())
    return (gained - chance) / (best - chance)


# -- tables -----------------------------------------------------------------------------------------------------------


def _tuned(job: tuple[str, str], updates: int) -> float:
    """The learning rate with which this optimizer gets furthest on the tuning seeds."""
    regime, name = REGIMES[job[0]], job[1]
    means = {
        rate: np.mean([reached(1000 + seed, regime, name, updates, rate) for seed in range(TUNING_SEEDS)])
        for rate in RATES
    }
    return max(means, key=lambda rate: means[rate])


def _row(job: tuple[str, str], seeds: Sequence[int], updates: int, draws: int) -> dict[str, Any]:
    regime, name = REGIMES[job[0]], job[1]
    rate = _tuned(job, updates)
    courses = [reached(seed, regime, name, updates, rate) for seed in seeds]
    off = [errors(seed, regime, name, draws) for seed in seeds]
    return {
        "regime": job[0],
        "optimizer": name,
        "rate": rate,
        "on the way": [float(np.mean(course)) for course in courses],
        "reached": [course[-1] for course in courses],
        **{figure: [one[figure] for one in off] for figure in off[0]},
    }


def compared(rows: Rows) -> Rows:
    """With the paired differences to PARPO, where it is among them."""
    for row in rows:
        parpo = next((one for one in rows if (one["regime"], one["optimizer"]) == (row["regime"], "parpo")), row)
        if row is not parpo:
            row["parpo nearer by"] = str(paired_difference(row["error"], parpo["error"]))
            row["parpo ahead by"] = str(paired_difference(parpo["on the way"], row["on the way"]))
    return rows


def show(rows: Rows) -> None:
    for regime in dict.fromkeys(row["regime"] for row in rows):
        some = [row for row in rows if row["regime"] == regime]
        print(f"\n{regime}, {len(some[0]['reached'])} seeds\n")
        rows = []
        for row in some:
            figures = [bootstrap(row[name]) for name in FIGURES]
            cells = [f"{figure.estimate:.3f} ± {figure.margin:.3f}" for figure in figures]
            rows.append([row["optimizer"], *cells, *(row.get(name, "") for name in DIFFERENCES)])
        print_markdown(["optimizer", *FIGURES, *DIFFERENCES], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        seeds=8,
        first_seed=0,
        updates=60,
        draws=(25, "how often a sample is compared with others"),
        processes=2,
    )
    parser.add_argument("--regimes", nargs="+", choices=REGIMES, default=list(REGIMES))
    parser.add_argument("--optimizers", nargs="+", choices=OPTIMIZERS, default=list(OPTIMIZERS))
    options = parser.parse_args(arguments)
    jobs = [(regime, name) for regime in options.regimes for name in OPTIMIZERS if name in options.optimizers]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    work = partial(_row, seeds=seeds, updates=options.updates, draws=options.draws)
    rows = compared(in_processes(work, jobs, options.processes))
    result = {"seeds": list(seeds), "updates": options.updates, "draws": options.draws, "rows": rows}
    return tell(result, options.json, lambda result: show(result["rows"]))


if __name__ == "__main__":
    main()
