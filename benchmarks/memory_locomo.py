"""How well the skill graph finds what was said in long conversations (LoCoMo), compared with words or vectors alone.

    git clone https://github.com/snap-research/locomo
    python benchmarks/memory_locomo.py --data locomo/data/locomo10.json

The file is the user's. It is licensed CC BY-NC 4.0, so nothing of it is shipped. Each turn of a conversation becomes a
shared skill of its speaker, with the time of its session. Each question with known evidence is recalled for the person
whom it names. R@k is the share of the evidence among the first k hits, MRR the reciprocal rank of the first hit that is
evidence.

Settings were chosen on the first five conversations (`--part develop`). Figures to report are those of the other five
(`--part report`). `--shuffle-owners` gives each turn to a random speaker, so that owners and communities mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from agentfw_benchmarks import Options, difference_of, mean_of, print_aligned, shown, tell
from agentfw_benchmarks.question_sets import World, conversation
from agentfw_memory import GraphSettings, SkillGraph
from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.index.embedders import Embedder, open_embedder

CATEGORIES = {1: "several hops", 2: "time", 3: "open domain", 4: "one hop"}
"""The kinds of question that have an answer, by their number in the file."""
DEPTHS = (1, 5, 10, 20)

HYBRID = GraphSettings()
TERMS = ("owner_weight", "user_weight", "community_weight", "complement_boost", "conflict_weight", "neighbour_weight")
NO_GRAPH = replace(HYBRID, **dict.fromkeys(TERMS, 0.0))  # type: ignore[arg-type]
SYSTEMS: dict[str, GraphSettings] = {
    "defaults": HYBRID,
    "without terms of the graph": NO_GRAPH,
    "words alone (BM25, stemmed)": replace(NO_GRAPH, query_similarity="words", siblings=0),
    "vectors alone": replace(NO_GRAPH, query_similarity="vectors", siblings=0),
    "named owner off": replace(HYBRID, owner_weight=0.0),
    "neighbours off": replace(HYBRID, neighbour_weight=0.0),
    "community off": replace(HYBRID, community_weight=0.0),
    "user off": replace(HYBRID, user_weight=0.0),
    "not calibrated": replace(HYBRID, calibrate=False),
    "the paper's score": GraphSettings.ablation("full"),
}


@dataclass
class Figures:
    """What one system reached at each question."""

    found: dict[int, list[float]] = field(default_factory=lambda: {depth: [] for depth in DEPTHS})
    reciprocal: list[float] = field(default_factory=list)
    categories: list[int] = field(default_factory=list)

    def note(self, hits: Sequence[str], wanted: set[str], category: int = 0) -> None:
        """Note which of the wanted skills are among the hits for a question."""
        for depth in DEPTHS:
            self.found[depth].append(len(wanted.intersection(hits[:depth])) / len(wanted))
        self.reciprocal.append(next((1 / place for place, hit in enumerate(hits, 1) if hit in wanted), 0.0))
        self.categories.append(category)

    def by_category(self, depth: int) -> dict[str, float]:
        pairs = list(zip(self.found[depth], self.categories, strict=True))
        by_kind = {kind: [value for value, one in pairs if one == kind] for kind in CATEGORIES}
        return {CATEGORIES[kind]: sum(some) / len(some) if some else float("nan") for kind, some in by_kind.items()}

    def record(self, system: str, first: Figures) -> dict[str, Any]:
        """The figures, also as differences from those of the first system."""
        return {
            "system": system,
            **{f"R@{depth}": mean_of(self.found[depth]) for depth in DEPTHS},
            "MRR": mean_of(self.reciprocal),
            "R@10 against the first": difference_of(self.found[10], first.found[10]),
        }


class EmbeddedOnce:
    """An embedder that computes each text once, however many systems are measured."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder, self._rows = embedder, dict[str, Float32Array]()
        self.name, self.version, self.dimensions = embedder.name, embedder.version, embedder.dimensions

    def embed(self, texts: Sequence[str]) -> Float32Array:
        missing = list(dict.fromkeys(text for text in texts if text not in self._rows))
        self._rows.update(zip(missing, self._embedder.embed(missing), strict=True))
        return np.array([self._rows[text] for text in texts], np.float32).reshape(len(texts), self.dimensions)


def ask(world: World, settings: GraphSettings, embedder: Embedder, shuffled: bool, figures: Figures) -> None:
    """Add all turns to a new graph, and ask all questions."""
    draw, owners = random.Random(world.name), [turn.owner for turn in world.notes.values()]
    if shuffled:
        draw.shuffle(owners)
    with SkillGraph.open(":memory:", tenant="locomo", embedder=embedder, settings=settings) as graph:
        added = graph.add_skills(
            replace(turn, owner=owner) for turn, owner in zip(world.notes.values(), owners, strict=True)
        )
        ids = dict(zip(world.notes, (skill.id for skill in added), strict=True))
        for question in world.questions:
            wanted = {ids[turn] for turn in question.wanted}
            hits = [hit.skill.id for hit in graph.recall(question.text, user=question.user, k=max(DEPTHS))]
            figures.note(hits, wanted, question.category)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    everything = [conversation(record) for record in json.loads(options.data.read_text("utf-8"))]
    half = len(everything) // 2
    chosen = {"develop": everything[:half], "report": everything[half:], "all": everything}[options.part]
    names, embedder = options.systems or list(SYSTEMS), EmbeddedOnce(open_embedder(options.embedder))
    results: dict[str, Figures] = {}
    for name in names:
        figures = results[name] = Figures()
        for world in chosen:
            ask(world, SYSTEMS[name], embedder, options.shuffle_owners, figures)
    first = results[names[0]]
    return {
        "questions": sum(len(world.questions) for world in chosen),
        "turns": sum(len(world.notes) for world in chosen),
        "part": options.part,
        "embedder": options.embedder,
        "shuffled owners": options.shuffle_owners,
        "systems": [
            some.record(name, first) | {"R@10 by category": some.by_category(10)} for name, some in results.items()
        ],
    }


def show(result: dict[str, Any]) -> None:
    print(f"{result['questions']} questions about {result['turns']} turns, part {result['part']}, {result['embedder']}")
    show_systems(result["systems"])


def show_systems(systems: Sequence[dict[str, Any]]) -> None:
    """A system a line."""
    names, kinds = (*(f"R@{depth}" for depth in DEPTHS), "MRR"), [*systems[0].get("R@10 by category", ())]
    rows = [
        [some["system"], *(shown(some[name]) for name in names), shown(some["R@10 against the first"], "+.3f")]
        + [f"{some['R@10 by category'][kind]:.3f}" for kind in kinds]
        for some in systems
    ]
    print_aligned(["", *names, "R@10 against the first", *(f"R@10, {kind}" for kind in kinds)], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, data=(Path, "the file locomo10.json"), embedder="wordllama", shuffle_owners=False)
    parser.add_argument("--part", choices=("develop", "report", "all"), default="report")
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), help="default: all of them")
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
