"""Whether weights that are learned from trajectories rank better than the fixed ones, on generated people.

    python benchmarks/memory_learned_weights.py
    python benchmarks/memory_learned_weights.py --develop      # how the penalties were chosen

The people are those of skill_graph_quality.py. Each of their trajectories gets a query. Seven in ten are learned from,
in a random order. Before the graph learns one, the skills it would rank for the query are recorded with what each
term adds to their scores, so that no trajectory is evidence for what it put into the graph itself. Weights are learned
in two ways, each with a penalty on leaving the fixed ones:

- `choices`: a skill that a successful trajectory used should outrank the others of its list (a softmax over the list).
- `outcomes`: of the used skills, those of successful trajectories should score higher (logistic regression).

The other three in ten are held out: the graph never learns them. Both sets of weights recall for their queries.
`suitable` is the NDCG@5 of what this person wants there, which is hidden from the graph. `used` is that of the skills
that the held-out trajectory used, if it succeeded.

The penalties were chosen on societies 1000 to 1002 (`--develop`). Figures to report are of others.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import minimize
from skill_graph_quality import HINTS, SCENARIOS, K, Planted, Society, ndcg, planted_graph

from agentfw.report.statistics import bootstrap
from agentfw.seeds import Seeds
from agentfw_benchmarks import Options, difference_of, shown, tell
from agentfw_memory import GraphSettings, Hit, SkillGraph, Trajectory

FIXED = GraphSettings()
TERMS = ("query", "user", "community", "neighbours", "complement", "conflict")
RECORDED = 20
"""Number of ranked skills that a trajectory is evidence about."""
HELD_OUT = 0.3
SUCCESS = FIXED.learn_from
PENALTIES = (0.0, 0.001, 0.01, 0.1, 1.0)
CHOSEN = {"choices": 1.0, "outcomes": 0.001}

Loss = Callable[[np.ndarray[Any, Any]], tuple[float, np.ndarray[Any, Any]]]


@dataclass(frozen=True)
class Trip:
    """A trajectory with its query."""

    name: str
    user: str
    scenario: str
    query: str
    used: tuple[str, ...]
    reward: float


@dataclass(frozen=True)
class Choice:
    """One recorded list: what each term adds to each skill, which of them were used, and whether this succeeded."""

    points: np.ndarray[Any, Any]
    used: np.ndarray[Any, Any]
    success: bool


@dataclass(frozen=True)
class Grown:
    """A society, its graph after the trajectories to learn from, and what was recorded on the way."""

    society: Society
    path: Path
    planted: dict[str, Planted]
    choices: list[Choice]
    held_out: list[Trip]


def grow(seed: int, users: int, embedder: str, folder: Path) -> Grown:
    society, path = Society(seed, users), folder / f"{seed}.db"
    draw = Seeds(seed).child("learned weights").random("trajectories")
    graph, ids = planted_graph(society, path, embedder)
    with graph:
        trips = []
        for place, (user, scenario, places, reward) in enumerate(society.trajectories):
            query = draw.choice(SCENARIOS[scenario])
            if draw.random() < 0.5:
                query += f"; {HINTS[draw.choice(society.decided[scenario])]}"
            used = tuple(one for one in (ids[number] for number in places) if one is not None)
            trips.append(Trip(f"later {place}", user, scenario, query, used, reward))
        draw.shuffle(trips)
        learned_from = trips[round(HELD_OUT * len(trips)) :]
        choices = []
        for trip in learned_from:
            choice = recorded(graph, trip)
            choices += [] if choice is None else [choice]
            graph.learn(Trajectory(trip.name, trip.user, "", (trip.scenario,), skills=trip.used), trip.reward)
        graph.prepare()
    planted = {one: skill for one, skill in zip(ids, society.skills, strict=True) if one is not None}
    return Grown(society, path, planted, choices, trips[: len(trips) - len(learned_from)])


def recorded(graph: SkillGraph, trip: Trip) -> Choice | None:
    """Record what the graph would rank before it learns the trajectory. None if none of it was used."""
    hits = graph.recall(trip.query, user=trip.user, k=RECORDED)
    used = np.array([hit.skill.id in trip.used for hit in hits], np.bool_)
    return Choice(np.array([added(hit) for hit in hits]), used, trip.reward >= SUCCESS) if used.any() else None


def added(hit: Hit) -> list[float]:
    points = hit.why.points
    by_query = points.get("words", 0.0) + points.get("vectors", 0.0)
    return [by_query, *(points[name] for name in TERMS[1:])]


def by_choice(choices: Sequence[Choice]) -> Loss:
    """How unlikely it is that the used skills of successful trajectories were chosen out of their lists."""
    told = [choice for choice in choices if choice.success and not choice.used.all()]

    def loss(weights: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        total, slope = 0.0, np.zeros(len(weights))
        for choice in told:
            scores = choice.points @ weights
            likely = np.exp(scores - scores.max())
            likely /= likely.sum()
            wanted = choice.used / choice.used.sum()
            total -= float(wanted @ np.log(likely))
            slope += choice.points.T @ (likely - wanted)
        return total / len(told), slope / len(told)

    return loss


def by_outcome(choices: Sequence[Choice]) -> Loss:
    """How unlikely it is that skills were used with success or without, each compared with the average use."""
    points = np.concatenate([choice.points[choice.used] for choice in choices])
    success = np.concatenate([np.full(int(choice.used.sum()), choice.success) for choice in choices])
    often = np.log(success.mean() / (1.0 - success.mean()))
    points = points - points.mean(0)

    def loss(weights: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        scores = points @ weights + often
        total = float(np.logaddexp(0.0, np.where(success, -scores, scores)).mean())
        return total, points.T @ (1.0 / (1.0 + np.exp(-scores)) - success) / len(success)

    return loss


EVIDENCE: Mapping[str, Callable[[Sequence[Choice]], Loss]] = {"choices": by_choice, "outcomes": by_outcome}


def fit(loss: Loss, penalty: float) -> np.ndarray[Any, Any]:
    """Return what to multiply each fixed weight by, that of the query's similarity staying as it is."""

    def scaled(scale: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        value, slope = loss(np.repeat(scale, len(TERMS)))
        return value, np.array([slope.sum()])

    def penalised(multiples: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        value, slope = loss(sharpness * multiples)
        away = multiples - 1.0
        return value + penalty * float(away @ away), sharpness * slope + 2.0 * penalty * away

    # How decisive a point of score is, with the fixed weights.
    sharpness = float(minimize(scaled, [10.0], jac=True, bounds=[(0.01, 1000.0)]).x[0])
    found = minimize(penalised, np.ones(len(TERMS)), jac=True, bounds=[(0.01, 20.0)] + [(0.0, 20.0)] * (len(TERMS) - 1))
    return np.asarray(found.x / found.x[0])


def learned(multiples: np.ndarray[Any, Any]) -> GraphSettings:
    by_name = dict(zip(TERMS, multiples.tolist(), strict=True))
    return replace(
        FIXED,
        user_weight=FIXED.user_weight * by_name["user"],
        community_weight=FIXED.community_weight * by_name["community"],
        neighbour_weight=FIXED.neighbour_weight * by_name["neighbours"],
        complement_boost=FIXED.complement_boost * by_name["complement"],
        conflict_weight=FIXED.conflict_weight * by_name["conflict"],
    )


def judge(grown: Grown, settings: GraphSettings) -> dict[str, list[float]]:
    """Return one figure for each held-out trajectory, NaN where there is nothing to find."""
    society, figures = grown.society, {"suitable": list[float](), "used": list[float]()}
    with SkillGraph.open(grown.path, tenant="all", settings=settings) as graph:
        for trip in grown.held_out:
            found = [hit.skill.id for hit in graph.recall(trip.query, user=trip.user, k=K)]
            grades = {one: society.grade(trip.user, trip.scenario, skill) for one, skill in grown.planted.items()}
            figures["suitable"].append(ndcg([grades.get(one, 0) for one in found], list(grades.values())))
            wanted = [int(one in trip.used) for one in grown.planted] if trip.reward >= SUCCESS else []
            figures["used"].append(ndcg([int(one in trip.used) for one in found], wanted))
    return figures


def measure(options: argparse.Namespace) -> dict[str, Any]:
    seeds = range(1000, 1003) if options.develop else range(options.first, options.first + options.seeds)
    ways = [(evidence, penalty) for evidence in EVIDENCE for penalty in PENALTIES]
    if not options.develop:
        ways = list(CHOSEN.items())
    rows: dict[tuple[str, float], list[dict[str, Any]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            grown = grow(seed, options.users, options.embedder, Path(folder))
            fixed = judge(grown, FIXED)
            for evidence, penalty in ways:
                multiples = fit(EVIDENCE[evidence](grown.choices), penalty)
                row = {"seed": seed, "lists": len(grown.choices), "held out": len(grown.held_out)}
                row["multiples"] = dict(zip(TERMS, multiples.tolist(), strict=True))
                row["fixed"], row["learned"] = fixed, judge(grown, learned(multiples))
                rows[evidence, penalty].append(row)
    return {
        "users": options.users,
        "embedder": options.embedder,
        "ways": [{"evidence": way[0], "penalty": way[1], **told(some)} for way, some in rows.items()],
    }


def told(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for figure in ("suitable", "used"):
        fixed, own = ([value for row in rows for value in row[side][figure]] for side in ("fixed", "learned"))
        found[figure] = {
            "fixed": bootstrap(fixed).estimate,
            "learned": bootstrap(own).estimate,
            "difference": difference_of(own, fixed),
            "by seed": [float(np.nanmean(np.subtract(row["learned"][figure], row["fixed"][figure]))) for row in rows],
        }
    found["multiples"] = {name: [round(row["multiples"][name], 2) for row in rows] for name in TERMS}
    found["lists"], found["held out"] = (sum(row[name] for row in rows) for name in ("lists", "held out"))
    return found


def show(result: dict[str, Any]) -> None:
    print(f"societies of {result['users']} people, embedder {result['embedder']}, NDCG@{K} on held-out trajectories")
    for row in result["ways"]:
        way = f"from {row['evidence']}, penalty {row['penalty']}"
        print(f"{way}: {row['lists']} lists, {row['held out']} held-out trajectories")
        for figure in ("suitable", "used"):
            one = row[figure]
            seeds = " ".join(f"{value:+.3f}" for value in one["by seed"])
            both = f"fixed {one['fixed']:.3f} learned {one['learned']:.3f}"
            print(f"  {figure:9} {both}   {shown(one['difference'], '+.3f')}   by seed {seeds}")
        print(f"  multiples {row['multiples']}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        users=30,
        seeds=(5, "number of societies"),
        first=(100, "seed of the first society"),
        develop=(False, "try all ways on societies 1000 to 1002"),
        embedder="wordllama",
    ).parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
