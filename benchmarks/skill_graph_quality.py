"""Whether each part of the score improves retrieval, measured on generated people with hidden preferences.

    python benchmarks/skill_graph_quality.py
    python benchmarks/skill_graph_quality.py --embedder hash --users 30 --seeds 2 --json
    python benchmarks/skill_graph_quality.py --search 60      # also choose settings on training seeds

Relevance depends on hidden variables only. A person has a preference for each question that comes up (when, by which
channel, at what price ...). It is mostly that of a hidden circle of people, and their own in one scenario of five. A
skill is relevant for a query if it is about the query's scenario and says what this person prefers there: grade 2 for
their own skills, 1 for shared skills of others. Neither the texts nor the graph name preferences or circles. Skills and
queries draw their words independently. One skill in five says what its owner once did and doesn't want.

The graph sees what a real one would see: good episodes that each produce a skill, and later ones that use skills of
their scenario that fit the person and one that may not. The better the skills fit, the more likely an episode
succeeds.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from agentfw.seeds import Seeds
from agentfw_benchmarks import Options, difference_of, mean_of, print_aligned, shown, tell
from agentfw_memory import SkillDraft, SkillGraph, Trajectory
from agentfw_memory.graph.graph_settings import GraphSettings

SCENARIOS = {
    "moving a meeting": (
        "move my meeting",
        "find another time for the appointment",
        "reschedule the call with the team",
    ),
    "booking a trip": ("book a trip", "arrange my travel to the conference", "get me to Lisbon and back"),
    "returning goods": ("send the shoes back", "return what I ordered", "get my money for the broken lamp"),
    "ordering food": ("order dinner", "get lunch for everybody", "have something to eat delivered"),
    "paying a bill": ("pay the invoice", "settle what I owe", "transfer the rent"),
    "planning a party": ("plan the birthday party", "organise the celebration", "prepare the anniversary"),
    "hiring somebody": ("find a new colleague", "fill the open position", "invite candidates"),
    "writing a report": ("write the quarterly report", "summarise the figures", "put the results on paper"),
    "repairing a device": ("fix my laptop", "the printer is broken", "have the phone repaired"),
    "seeing a doctor": ("get me a check-up", "see a physician", "arrange the dentist"),
    "renting a flat": ("look for an apartment", "find a place to live", "view homes"),
    "buying a present": ("find a gift for my sister", "get something for the wedding", "choose a present"),
    "learning a language": ("learn Spanish", "practise my French", "study vocabulary"),
    "training for a race": ("prepare for the marathon", "plan my runs", "get fit for the race"),
    "cancelling a contract": ("cancel my subscription", "end the gym membership", "get out of the phone contract"),
    "teaching a class": ("prepare my lesson", "plan the course", "make exercises for the pupils"),
}
"""What comes up, and how people speak of it. A skill and a query each take one of these ways."""

QUESTIONS = {
    "when": {
        "early": ("take the earliest slot", "do it in the morning", "as early in the day as it can be"),
        "late": ("take the latest slot", "do it in the evening", "as late in the day as it can be"),
        "weekend": ("do it at the weekend", "keep working days free", "choose Saturday or Sunday"),
    },
    "through": {
        "phone": ("call by phone", "ring them up", "speak to a person on the telephone"),
        "mail": ("send an email", "write a mail", "put it in writing"),
        "chat": ("use the chat", "send a text message", "write in the messenger"),
    },
    "price": {
        "cheap": ("take the cheapest", "save money", "stay within a small budget"),
        "premium": ("take the premium option", "pay more for quality", "choose the most comfortable"),
        "middle": ("take something in between", "compare the offers first", "look for good value"),
    },
    "say": {
        "brief": ("keep it brief", "one short paragraph", "only what is needed"),
        "detailed": ("explain it in detail", "give the whole background", "list every step"),
        "visual": ("show a picture", "draw a chart", "make a table"),
    },
    "consent": {
        "ask": ("ask before doing anything", "get a confirmation first", "let me approve it"),
        "act": ("do it at once", "decide without asking", "just take care of it"),
        "propose": ("propose three options", "offer a choice", "give alternatives"),
    },
}
"""What is decided in a scenario, the ways to decide it, and how people say so."""

HINTS = {
    "when": "what time suits me?",
    "through": "how should they be reached?",
    "price": "what may it cost?",
    "say": "how shall it be told?",
    "consent": "should you ask me?",
}
CIRCLES, QUESTIONS_A_SCENARIO = 4, 2
OWN_TASTE, LIKE_CIRCLE, WRONG_SKILL, SHARED = 0.2, 0.8, 0.2, 0.4
K = 5


@dataclass(frozen=True)
class Planted:
    """A skill with what is hidden about it."""

    owner: str
    text: str
    scenario: str
    question: str
    choice: str
    shared: bool


@dataclass(frozen=True)
class Asked:
    """A query with who asks, about what."""

    user: str
    text: str
    scenario: str
    known: bool
    """Whether the person has a skill of their own there that fits."""


class Society:
    """People, their tastes, their skills, and what they ask."""

    def __init__(self, seed: int, users: int) -> None:
        seeds = Seeds(seed).child("skill graph quality")
        draw = seeds.random("tastes")
        self.users = [f"user{number}" for number in range(users)]
        circles = [{question: draw.choice(list(QUESTIONS[question])) for question in QUESTIONS} for _ in range(CIRCLES)]
        self.decided = {scenario: draw.sample(list(QUESTIONS), QUESTIONS_A_SCENARIO) for scenario in SCENARIOS}
        self.taste: dict[tuple[str, str, str], str] = {}
        for user in self.users:
            circle = draw.choice(circles)
            mine = {
                question: circle[question] if draw.random() < LIKE_CIRCLE else draw.choice(list(choices))
                for question, choices in QUESTIONS.items()
            }
            for scenario, questions in self.decided.items():
                for question in questions:
                    own = draw.random() < OWN_TASTE
                    choice = draw.choice(list(QUESTIONS[question])) if own else mine[question]
                    self.taste[user, scenario, question] = choice
        self.skills = self._skills(seeds.random("skills"))
        self.trajectories = self._trajectories(seeds.random("trajectories"))
        self.queries = self._queries(seeds.random("queries"))

    def fits(self, user: str, skill: Planted) -> bool:
        return self.taste.get((user, skill.scenario, skill.question)) == skill.choice

    def grade(self, user: str, scenario: str, skill: Planted) -> int:
        if skill.scenario != scenario or not self.fits(user, skill):
            return 0
        return 2 if skill.owner == user else int(skill.shared)

    def _skills(self, draw: random.Random) -> list[Planted]:
        found = []
        for user in self.users:
            for scenario in draw.sample(list(SCENARIOS), len(SCENARIOS) // 2):
                for question in self.decided[scenario]:
                    choices = QUESTIONS[question]
                    choice = self.taste[user, scenario, question]
                    if draw.random() < WRONG_SKILL:
                        choice = draw.choice([other for other in choices if other != choice])
                    text = f"To {draw.choice(SCENARIOS[scenario])}: {draw.choice(choices[choice])}"
                    found.append(Planted(user, text, scenario, question, choice, draw.random() < SHARED))
        return found

    def _trajectories(self, draw: random.Random) -> list[tuple[str, str, list[int], float]]:
        """Who, in which scenario, with which skills, and the reward."""
        found = []
        for user in self.users:
            for scenario in SCENARIOS:
                seen = [
                    place
                    for place, skill in enumerate(self.skills)
                    if skill.scenario == scenario and (skill.owner == user or skill.shared)
                ]
                good = [place for place in seen if self.fits(user, self.skills[place])]
                used = draw.sample(good, min(2, len(good))) + draw.sample(seen, min(1, len(seen)))
                used = list(dict.fromkeys(used))
                share = sum(self.fits(user, self.skills[place]) for place in used) / max(len(used), 1)
                found.append((user, scenario, used, min(1.0, max(0.0, share + draw.gauss(0.0, 0.15)))))
        return found

    def _queries(self, draw: random.Random) -> list[Asked]:
        found = []
        for user in self.users:
            for scenario in draw.sample(list(SCENARIOS), 6):
                text = draw.choice(SCENARIOS[scenario])
                if draw.random() < 0.5:
                    text += f"; {HINTS[draw.choice(self.decided[scenario])]}"
                own = any(
                    skill.owner == user and skill.scenario == scenario and self.fits(user, skill)
                    for skill in self.skills
                )
                asked = Asked(user, text, scenario, own)
                if any(self.grade(user, scenario, skill) for skill in self.skills):
                    found.append(asked)
        return found


FULL = GraphSettings()
FLAT = GraphSettings.ablation("A2")
SYSTEMS: dict[str, GraphSettings] = {
    "graph score": FULL,
    "the paper's score": GraphSettings.ablation("full"),
    "hybrid only": replace(FLAT, query_similarity="hybrid"),
    "dense only": FLAT,
    "words only (BM25)": replace(FLAT, query_similarity="words"),
    "graph score over vectors": replace(FULL, query_similarity="vectors"),
    "graph score over words": replace(FULL, query_similarity="words"),
    "two-hop off": replace(FULL, siblings=0),
    "two hops by owner": replace(FULL, second_hop="owner"),
    "neighbours off": replace(FULL, neighbour_weight=0.0),
    "not calibrated": replace(FULL, calibrate=False),
    "nothing left out": replace(FULL, at_least=0.0),
    "user term off": replace(FULL, user_weight=0.0),
    "community term off": replace(FULL, community_weight=0.0),
    "complement term off": replace(FULL, complement_boost=0.0),
    "conflict term off": replace(FULL, conflict_weight=0.0),
    "conflicts with candidates": replace(FULL, conflicts_with="candidates"),
    "user weight 0.3": replace(FULL, user_weight=0.3),
    "Louvain": replace(FULL, communities="louvain"),
}


@dataclass(frozen=True)
class Built:
    """A society with the file that its graph is in."""

    society: Society
    path: Path
    planted: dict[str, Planted]


def planted_graph(society: Society, path: Path, embedder: str) -> tuple[SkillGraph, list[str | None]]:
    """A graph that has grown a skill for each good episode, and the ids of these skills.

    A draft that the graph took for one that was there has no id of its own, and isn't looked for.
    """
    drafts: dict[str, SkillDraft] = {}

    def extractor(trajectory: Trajectory, at_most: int) -> list[SkillDraft]:
        return [drafts[trajectory.id]] if trajectory.id in drafts else []

    ids: list[str | None] = []
    graph = SkillGraph.open(path, tenant="all", embedder=embedder, extractor=extractor)
    for place, skill in enumerate(society.skills):
        name = f"first {place}"
        drafts[name] = SkillDraft(skill.text, scenarios=(skill.scenario,))
        learned = graph.learn(Trajectory(name, skill.owner, "", (skill.scenario,)), 0.9)
        ids.append(learned.added[0] if learned.added else None)
        if learned.added and skill.shared:
            graph.update_skill(learned.added[0], visibility="shared")
    return graph, ids


def build(seed: int, users: int, embedder: str, folder: Path) -> Built:
    """Grow the graph as it would grow: a skill for each good episode, then episodes that use what is there."""
    society, path = Society(seed, users), folder / f"{seed}.db"
    graph, ids = planted_graph(society, path, embedder)
    with graph:
        for place, (user, scenario, used, reward) in enumerate(society.trajectories):
            skills = tuple(one for one in (ids[number] for number in used) if one is not None)
            graph.learn(Trajectory(f"later {place}", user, "", (scenario,), skills=skills), reward)
        graph.prepare()
    planted = {one: skill for one, skill in zip(ids, society.skills, strict=True) if one is not None}
    return Built(society, path, planted)


@dataclass(frozen=True)
class Figures:
    """What one system reached at each query."""

    precision: list[float]
    ndcg: list[float]
    contradicting: list[float]
    """Pairs of hits that say the opposite of each other, by what is hidden; nobody can follow both."""
    known: list[bool]


def judge(built: Built, settings: GraphSettings) -> Figures:
    """Ask everything; a hit counts by its grade."""
    society, figures, path = built.society, Figures([], [], [], []), built.path
    anew = settings.communities != FULL.communities
    if anew:
        path = Path(shutil.copy(path, path.with_suffix(".other")))
    with SkillGraph.open(path, tenant="all", settings=settings) as graph:
        if anew:
            graph.prepare()
        for asked in society.queries:
            hits = graph.recall(asked.text, user=asked.user, k=K)
            told = [built.planted[hit.skill.id] for hit in hits]
            grades = [society.grade(asked.user, asked.scenario, skill) for skill in told]
            possible = [society.grade(asked.user, asked.scenario, skill) for skill in built.planted.values()]
            figures.precision.append(sum(grade > 0 for grade in grades) / K)
            figures.ndcg.append(ndcg(grades, possible))
            figures.contradicting.append(sum(opposed(one, other) for one, other in combinations(told, 2)))
            figures.known.append(asked.known)
    return figures


def opposed(one: Planted, other: Planted) -> bool:
    """Whether two skills decide one question of one scenario in two ways."""
    return (one.scenario, one.question) == (other.scenario, other.question) and one.choice != other.choice


def ndcg(grades: Sequence[int], possible: Sequence[int]) -> float:
    """The gain of what was found as a share of the best, NaN where there is nothing to find."""
    best = sorted(possible, reverse=True)[:K]
    return gain(grades) / gain(best) if any(best) else float("nan")


def gain(grades: Sequence[int]) -> float:
    """Discounted cumulative gain, with 2 to the grade less 1."""
    return sum((2**grade - 1) / np.log2(place + 2) for place, grade in enumerate(grades))


def over(some: Sequence[Built], settings: GraphSettings) -> Figures:
    parts = [judge(built, settings) for built in some]
    return Figures(*([value for part in parts for value in getattr(part, name)] for name in Figures.__annotations__))


def search(some: Sequence[Built], tries: int, seed: int) -> tuple[GraphSettings, float]:
    """The settings that do best on these societies, among the defaults and so many drawn at random."""
    draw = Seeds(seed).random("search")
    tried = [
        FULL,
        *(
            GraphSettings(
                user_weight=draw.choice([0.0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.9]),
                community_weight=draw.choice([0.0, 0.02, 0.05, 0.1, 0.2]),
                complement_boost=draw.choice([0.0, 0.02, 0.05, 0.1, 0.2]),
                conflict_weight=draw.choice([0.0, 0.02, 0.05, 0.1, 0.2]),
                conflicts_with=draw.choice(["candidates", "selected"]),
                candidates=draw.choice([10, 20, 40, 80]),
                siblings=draw.choice([0, 5, 20]),
            )
            for _ in range(tries)
        ),
    ]
    scored = [(float(np.nanmean(over(some, settings).ndcg)), -place) for place, settings in enumerate(tried)]
    best, place = max(scored)
    return tried[-place], best


def measure(options: argparse.Namespace) -> dict[str, Any]:
    systems = dict(SYSTEMS)
    result: dict[str, Any] = {"users": options.users, "embedder": options.embedder, "seeds": options.seeds, "k": K}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.search:
            training = [build(1000 + seed, options.users, options.embedder, folder) for seed in range(options.training)]
            found, reached = search(training, options.search, options.seed)
            systems["found on training seeds"] = found
            result["found"] = {"settings": changed(found), "ndcg on training seeds": reached}
        evaluated = [build(seed, options.users, options.embedder, folder) for seed in range(options.seeds)]
        figures = {name: over(evaluated, settings) for name, settings in systems.items()}
    full = figures["graph score"]
    result["skills"] = sum(len(built.planted) for built in evaluated)
    result["queries"] = len(full.ndcg)
    result["systems"] = [row(name, some, full) for name, some in figures.items()]
    return result


def row(name: str, some: Figures, full: Figures) -> dict[str, Any]:
    found: dict[str, Any] = {"system": name}
    for figure in ("precision", "ndcg", "contradicting"):
        found[figure] = mean_of(getattr(some, figure))
    for word, wanted in (("known", True), ("strange", False)):
        values = [value for value, known in zip(some.ndcg, some.known, strict=True) if known is wanted]
        found[f"ndcg, {word}"] = float(np.nanmean(values)) if values else float("nan")
    if some is not full:
        found["against graph score"] = difference_of(some.ndcg, full.ndcg)
        found["contradicting, against"] = difference_of(some.contradicting, full.contradicting)
    return found


def changed(settings: GraphSettings) -> Mapping[str, Any]:
    """What is not as it is by default."""
    values = {name: getattr(settings, name) for name in GraphSettings.__dataclass_fields__}
    return {name: value for name, value in values.items() if value != getattr(FULL, name)}


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['queries']} queries of {result['users']} people in each of {result['seeds']} societies, "
        f"{result['skills']} skills, embedder {result['embedder']}, k={K}; 95% intervals over queries\n"
    )
    rows = []
    for some in result["systems"]:
        cells = [shown(some[name]) for name in ("precision", "ndcg", "contradicting")]
        cells += [f"{some[name]:.3f}" for name in ("ndcg, known", "ndcg, strange")]
        beside = [some[name] for name in ("against graph score", "contradicting, against") if name in some]
        rows.append([some["system"], *cells, *(f"{shown(one, '+.3f')} p={one['p']:.3f}" for one in beside)])
    heads = ["", "precision", "NDCG", "contradicting", "known", "strange", "NDCG against the graph score"]
    print_aligned([*heads, "contradicting, against it"], rows)
    if "found" in result:
        print(f"\nfound on training seeds: {result['found']}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        users=60,
        seeds=(5, "number of test societies"),
        embedder="wordllama",
        search=(0, "random settings to try; the best are measured too"),
        training=(3, "number of societies to choose settings on"),
        seed=(7, "random seed of the search"),
    ).parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
