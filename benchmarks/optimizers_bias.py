"""Users whose rewards have different centres and scales: how far off are advantages, and what is learned from them?

    python benchmarks/optimizers_bias.py                     # some ten minutes
    python benchmarks/optimizers_bias.py --worlds stars --groups 1 2 --seeds 4 --updates 40

The one rule: every optimizer is the one that a training uses, on the same users, tasks and number of answers (32 in
each update, however they are grouped). How large its steps are is tuned for each of them alike, on other seeds than
those that are measured, on a grid that is followed until its best rate lies inside.

A task has six answers with four features each. How good an answer is depends on its features and is the same for all;
how much a user likes it depends on that user's taste. Both are higher or lower for some tasks than for others. What is
said of an answer depends on the world:

    stars       centre + scale x (liking + noise); centres (normal, 3) and scales (log-normal, 1) differ between users
    thumbs      up or down, by lenient and harsh people; and so is what is said of how good it is
    many        stars of 400 users, who hardly come back

A group has one user's answers to one task, or in groups that mix users (`mixed`) one answer each of eight users. The
policy is a softmax of features times (M taste + w), so users share all that is learned, and its true advantages are
known: half the quality above what the policy gets for this user and task, half the liking, each in units of its spread.

    error       how far the advantage of a sample is off the truth, over many draws of what it is compared with, in
                units of the true advantages, after each optimizer was multiplied by the one factor that suits it best
    on the way  what the policy gets, from 0 (choosing by chance) to 1 (always the best), as the mean after each quarter
                of the training: who learns from fewer answers is ahead here

The optimizer `oracle` is told the truth. `empirical_bayes` is "ahead by" the paired difference on the way. Intervals
are 95%, bootstrapped over seeds.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, cast

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from agentfw import Episode, Host, Optimizer, Score, Task, Turn
from agentfw.errors import UsageError
from agentfw.optimizer import Scored
from agentfw.report.statistics import bootstrap, paired_difference
from agentfw.runs import in_processes
from agentfw.seeds import Seeds
from agentfw.testing import fresh_host
from agentfw_benchmarks import Options, print_markdown, tell

Array = np.ndarray[Any, np.dtype[np.float64]]
Rows = list[dict[str, Any]]
Said = tuple[Array, Array, Array]
"""Of samples their answers, and what was said of how good they are and how much they are liked."""

FEATURES, ANSWERS, NOISE = 4, 6, 0.5
SAMPLES = 32
"""In each update."""
START, TUNING_SEEDS = 0.2, 3
FIGURES = ("error", "on the way")
OURS, ORACLE = "empirical_bayes", "oracle"

OPTIMIZERS: dict[str, tuple[str, dict[str, object]]] = {
    OURS: (OURS, {}),
    "grpo (C1)": ("grpo", {}),
    "reinforce": ("reinforce", {}),
    "parpo": ("parpo", {}),
    "parpo, baseline=anchor": ("parpo", {"baseline": "anchor"}),
    "parpo, base_baseline=running": ("parpo", {"base_baseline": "running"}),
    "parpo, no anchor (C4)": ("parpo", {"baseline": "group", "scale": "group"}),
    ORACLE: ("", {}),
}


@dataclass(frozen=True)
class World:
    users: int = 24
    centre: float = 3.0
    scale: float = 1.0
    tasks: float = 0.5
    """How much tasks differ."""
    thumbs: bool = False


WORLDS = {"stars": World(), "thumbs": World(centre=1.0, scale=0.0, thumbs=True), "many": World(users=400)}
GROUPS = ("1", "2", "4", "8", "mixed")


class People:
    """Some users, what they like, and how they say so."""

    def __init__(self, seeds: Seeds, world: World) -> None:
        generator = seeds.numpy("people")
        self.taste = generator.normal(size=(world.users, FEATURES)) / np.sqrt(FEATURES)
        self.centre = generator.normal(0.0, 1.0, world.users) * world.centre
        self.scale = np.exp(generator.normal(0.0, 1.0, world.users) * world.scale)


@dataclass
class Tasks:
    """One task for each of some users: the answers' features, and what is thought of them without noise."""

    users: Array
    features: Array  # task, answer, feature
    quality: Array  # task, answer
    liking: Array  # task, answer


@dataclass
class Policy:
    """Softmax of features times (M taste + w)."""

    matrix: Array = field(default_factory=lambda: np.zeros((FEATURES, FEATURES)))
    vector: Array = field(default_factory=lambda: np.zeros(FEATURES))

    def chances(self, tasks: Tasks, people: People) -> Array:
        weights = people.taste[tasks.users] @ self.matrix.T + self.vector
        logits = np.einsum("taf,tf->ta", tasks.features, weights)
        chances: Array = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        return chances


class Simulation:
    """One world: training users, and batches of scored samples of them."""

    def __init__(self, seed: int, world: str, group: str) -> None:
        self.seeds, self.world, self.mixed = Seeds(seed).child("optimizers"), WORLDS[world], group == "mixed"
        self.samples = 8 if self.mixed else int(group)
        self.people = People(self.seeds, self.world)
        direction = self.seeds.numpy("goodness").normal(size=FEATURES)
        self.goodness = direction / np.linalg.norm(direction)

    def tasks(self, generator: np.random.Generator) -> Tasks:
        """A batch of tasks: one a group, or where groups mix users one a sample, alike for all users of a group."""
        groups = SAMPLES // self.samples
        if not self.mixed:
            return self.draw(generator.choice(self.world.users, groups), generator)
        users = [generator.choice(self.world.users, self.samples, replace=False) for _ in range(groups)]
        return self.draw(np.concatenate(users), generator, alike=self.samples)

    def draw(self, users: np.ndarray[Any, Any], generator: np.random.Generator, alike: int = 1) -> Tasks:
        count = len(users) // alike
        features = np.repeat(generator.normal(size=(count, ANSWERS, FEATURES)), alike, axis=0)
        harder = np.repeat(generator.normal(0.0, self.world.tasks, (count, 1)), alike, axis=0)
        disliked = generator.normal(0.0, self.world.tasks, (len(users), 1))
        liking = np.einsum("taf,tf->ta", features, self.people.taste[users])
        return Tasks(users, features, features @ self.goodness + harder, liking + disliked)

    def sample(self, tasks: Tasks, chances: Array, generator: np.random.Generator, first: Said | None = None) -> Said:
        """For each task its samples' answers and what is said of them; the first of each group may be given."""
        drawn = generator.random((len(chances), 1 if self.mixed else self.samples, 1))
        answers = (drawn > chances.cumsum(axis=1)[:, None, :-1]).sum(axis=2)
        rows = np.arange(len(chances))[:, None]
        quality = tasks.quality[rows, answers] + NOISE * generator.normal(size=answers.shape)
        liking = tasks.liking[rows, answers] + NOISE * generator.normal(size=answers.shape)
        told = self._said(quality, liking, tasks.users[:, None], lambda value: np.where(value > 0, 1.0, -1.0))
        said = (answers, *told)
        for values, given in zip(said, first or (), strict=first is not None):
            self.firsts(values)[:] = given
        return said

    def expected(self, tasks: Tasks) -> tuple[Array, Array]:
        """[task, answer]: the mean of what is said."""
        users = tasks.users[:, None]
        return self._said(tasks.quality, tasks.liking, users, lambda value: 2 * _normal(value / NOISE) - 1)

    def _said(
        self, quality: Array, liking: Array, users: Array, thumb: Callable[[Array], Array]
    ) -> tuple[Array, Array]:
        centre, scale = self.people.centre[users], self.people.scale[users]
        if self.world.thumbs:
            return thumb(quality), thumb(centre + liking)
        return quality, centre + scale * liking

    def firsts(self, values: Array) -> Array:
        """Of values of all samples those of the first of each group."""
        return values[:: self.samples, 0] if self.mixed else values[:, 0]

    def advantages(self, optimizer: Optimizer, tasks: Tasks, said: Said) -> Array:
        _, base, personal = said
        size = self.samples if self.mixed else 1
        groups: list[list[Scored]] = []
        for place in range(0, len(base), size):
            cells = [(row, column) for row in range(place, place + size) for column in range(base.shape[1])]
            users = [int(tasks.users[row]) for row, _ in cells]
            groups.append([_scored(place, n, users[n], base[cell], personal[cell]) for n, cell in enumerate(cells)])
        return np.array([one.value for one in optimizer.advantages(groups)]).reshape(base.shape)

    def truth(self, tasks: Tasks, chances: Array, said: Said, units: tuple[Any, Any]) -> Array:
        """Half of each reward above what the policy gets, in these units."""
        means = [(chances * table).sum(axis=1, keepdims=True) for table in self.expected(tasks)]
        parts = [(values - middle) / unit for values, middle, unit in zip(said[1:], means, units, strict=True)]
        return np.asarray(0.5 * parts[0] + 0.5 * parts[1])


def _normal(value: Array) -> Array:
    """The normal distribution function."""
    return np.asarray(0.5 * (1 + np.vectorize(math.erf)(value / math.sqrt(2))))


@cache
def _episode(index: int, sample: int, user: int) -> Episode:
    return Episode(Task(index, 0, user=str(user), sample=sample), turns=[Turn(0, 0, 1, count=1)])


def _scored(index: int, sample: int, user: int, base: float, personal: float) -> Scored:
    episode = _episode(index, sample, user)
    scores = (Score(episode.id, "quality", base), Score(episode.id, "preference", personal, "personal"))
    return Scored(episode, scores, base + personal)


def _optimizer(name: str) -> Optimizer:
    return cast(Optimizer, _host().create("optimizer", *OPTIMIZERS[name]))


@cache
def _host() -> Host:
    return fresh_host(builtins=True, strict=False)


# -- how far off ------------------------------------------------------------------------------------------------------


def error(seed: int, world: str, group: str, name: str, draws: int) -> float:
    """One world's error. The policy stands still, half trained; thirty batches have been before."""
    if name == ORACLE:
        return 0.0
    simulation, optimizer = Simulation(seed, world, group), _optimizer(name)
    generator = simulation.seeds.numpy("errors")
    policy = Policy(np.eye(FEATURES), simulation.goodness.copy())

    def batch() -> None:
        tasks = simulation.tasks(generator)
        said = simulation.sample(tasks, policy.chances(tasks, simulation.people), generator)
        simulation.advantages(optimizer, tasks, said)

    for _ in range(30):
        batch()
    tasks = simulation.tasks(generator)
    chances = policy.chances(tasks, simulation.people)
    said = simulation.sample(tasks, chances, generator)
    truth = simulation.firsts(simulation.truth(tasks, chances, said, _units(simulation, policy, tasks)))
    first: Any = tuple(map(simulation.firsts, said))
    found = np.empty((draws, len(truth)))
    for draw in range(draws):
        batch()
        state = optimizer.state()
        others = simulation.sample(tasks, chances, generator, first)
        found[draw] = simulation.firsts(simulation.advantages(optimizer, tasks, others))
        optimizer.restore(state)  # a sample that is noted again and again is no part of anybody's history
    size = float((found * found).sum())
    found *= float((found * truth).sum()) / size if size else 0.0
    return float(np.sqrt(np.mean((found - truth) ** 2) / np.mean(truth * truth)))


def _units(simulation: Simulation, policy: Policy, tasks: Tasks) -> tuple[Any, Any]:
    """The spread of what is said of one task under the policy: of quality, and of the liking of each task's user."""
    generator, users = simulation.seeds.numpy("truth"), np.repeat(np.arange(simulation.world.users), 200)
    many = simulation.draw(users, generator)
    chances, squares = policy.chances(many, simulation.people), []
    for table, scale in zip(simulation.expected(many), (np.ones(1), simulation.people.scale[users]), strict=True):
        middle = (chances * table).sum(axis=1)
        noise = (chances * (1 - table**2)).sum(axis=1) if simulation.world.thumbs else (NOISE * scale) ** 2
        squares.append((chances * (table - middle[:, None]) ** 2).sum(axis=1) + noise)
    of_user = np.sqrt(squares[1].reshape(simulation.world.users, -1).mean(axis=1))
    return np.sqrt(squares[0].mean()), of_user[tasks.users, None]


# -- what is learned --------------------------------------------------------------------------------------------------


def reached(seed: int, world: str, group: str, name: str, updates: int, rate: float) -> list[float]:
    """Train by REINFORCE with Adam, and after each quarter say how good the policy is on new tasks of these users."""
    simulation, policy = Simulation(seed, world, group), Policy()
    optimizer = None if name == ORACLE else _optimizer(name)
    generator, people = simulation.seeds.numpy("training"), simulation.people
    steps = [_Adam(rate, policy.matrix), _Adam(rate, policy.vector)]
    shares: list[float] = []
    for update in range(1, updates + 1):
        tasks = simulation.tasks(generator)
        chances = policy.chances(tasks, people)
        said = simulation.sample(tasks, chances, generator)
        if optimizer is None:
            weights = simulation.truth(tasks, chances, said, (1.0, people.scale[tasks.users, None]))
        else:
            weights = simulation.advantages(optimizer, tasks, said)
        rows = np.arange(len(weights))[:, None]
        surprise = tasks.features[rows, said[0]] - np.einsum("ta,taf->tf", chances, tasks.features)[:, None]
        pushes = np.einsum("ts,tsf->tf", weights, surprise)
        steps[0].climb(pushes.T @ people.taste[tasks.users] / weights.size)
        steps[1].climb(pushes.sum(axis=0) / weights.size)
        if update % max(1, updates // 4) == 0:
            shares.append(_share(simulation, policy))
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


def _share(simulation: Simulation, policy: Policy) -> float:
    users = np.repeat(np.arange(simulation.world.users), max(6, 2400 // simulation.world.users))
    tasks = simulation.draw(users, simulation.seeds.numpy("evaluation"))
    worth = 0.5 * tasks.quality + 0.5 * tasks.liking
    gained = float((policy.chances(tasks, simulation.people) * worth).sum(axis=1).mean())
    chance, best = float(worth.mean()), float(worth.max(axis=1).mean())
    return (gained - chance) / (best - chance)


# -- tables -----------------------------------------------------------------------------------------------------------


def tuned(world: str, group: str, name: str, updates: int) -> float:
    """The learning rate with which this optimizer gets furthest on the tuning seeds, found by climbing."""

    @cache
    def far(step: int) -> float:
        rate = START * 2**step
        return float(np.mean([reached(1000 + seed, world, group, name, updates, rate) for seed in range(TUNING_SEEDS)]))

    best = 0
    while (step := max((best - 1, best, best + 1), key=far)) != best:
        best = step
        if abs(best) > 6:
            raise UsageError(f"{name} has no best rate: {START * 2**best} is an edge", fix="look at the world first")
    return START * 2.0**best


def _row(job: tuple[str, str, str], seeds: Sequence[int], updates: int, draws: int) -> dict[str, Any]:
    world, group, name = job
    rate = tuned(world, group, name, updates)
    courses = [reached(seed, world, group, name, updates, rate) for seed in seeds]
    return {
        "world": world,
        "group": group,
        "optimizer": name,
        "rate": rate,
        "on the way": [float(np.mean(course)) for course in courses],
        "error": [error(seed, world, group, name, draws) for seed in seeds] if draws else [0.0] * len(seeds),
    }


def compared(rows: Rows) -> Rows:
    """With the paired differences to empirical_bayes, where it is among them."""
    ours = {(row["world"], row["group"]): row for row in rows if row["optimizer"] == OURS}
    for row in rows:
        own = ours.get((row["world"], row["group"]), row)
        if own is not row:
            row["ahead by"] = str(paired_difference(own["on the way"], row["on the way"]))
    return rows


def show(rows: Rows) -> None:
    for world, group in dict.fromkeys((row["world"], row["group"]) for row in rows):
        some = [row for row in rows if (row["world"], row["group"]) == (world, group)]
        print(f"\n{world}, groups of {group}, {len(some[0]['on the way'])} seeds\n")
        cells = []
        for row in some:
            figures = [bootstrap(row[name]) for name in FIGURES]
            shown = [f"{figure.estimate:.3f} ± {figure.margin:.3f}" for figure in figures]
            cells.append([row["optimizer"], f"{row['rate']:g}", *shown, row.get("ahead by", "")])
        print_markdown(["optimizer", "rate", *FIGURES, "ahead by"], cells)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        seeds=8,
        first_seed=300,
        updates=80,
        draws=(10, "how often a sample is compared with others; 0 leaves the error out"),
        processes=2,
    )
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--optimizers", nargs="+", choices=OPTIMIZERS, default=list(OPTIMIZERS))
    options = parser.parse_args(arguments)
    jobs = [
        (world, group, name)
        for world in options.worlds
        for group in options.groups
        for name in OPTIMIZERS
        if name in options.optimizers and not (group == "1" and name in _NEED_GROUPS)
    ]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    work = partial(_row, seeds=seeds, updates=options.updates, draws=options.draws)
    rows = compared(in_processes(work, jobs, options.processes))
    result = {"seeds": list(seeds), "updates": options.updates, "draws": options.draws, "rows": rows}
    return tell(result, options.json, lambda result: show(result["rows"]))


_NEED_GROUPS = ("grpo (C1)", "parpo, no anchor (C4)")
"""They teach nothing in groups of one."""


if __name__ == "__main__":
    main()
