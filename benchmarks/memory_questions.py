"""How well the skill graph finds answers in public sets, beside BM25, vectors, other settings and embedders.

    git clone https://github.com/danny911kr/REALTALK     # and the others that the program names
    python benchmarks/memory_questions.py --data FOLDER_OF_THE_CLONES
    python benchmarks/memory_questions.py --data FOLDER --sets locomo --parts

Each note is a shared skill of its speaker or article. R@10 is the share of the evidence among the first ten hits, MRR
the reciprocal rank of the first hit that is evidence. BM25 is that of the package bm25s, with its stop words and
Snowball's stemmer of the set's language, or over pairs of characters where words aren't separated by spaces; RRF are
BM25 and vectors by ranks.

Settings were chosen on `--sets choosing`: the first five conversations of LoCoMo, ClapNQ, XQuAD in English, German,
Russian and Chinese, and two of these beside private notes from LoCoMo. All others were looked at afterwards
(`--sets reporting`).

`--parts` changes or turns off parts of the score, `--embedders` compares several, also in CPU time.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from agentfw_benchmarks import Options, difference_of, mean_of, tell
from agentfw_benchmarks.question_sets import SETS, Asked, QuestionSet, World, sets_below
from agentfw_memory import GraphSettings, SkillGraph
from agentfw_memory.graph.index.embedders import embedded, open_embedder
from agentfw_memory.graph.records import Float32Array

K, DEEP, RRF = 10, 100, 60
HALF = 5
"""Number of LoCoMo's conversations that settings were chosen on."""
MANY, SAMPLE = 100_000, 1000
CHOOSING = ("locomo", "clapnq", "xquad-en", "xquad-de", "xquad-ru", "xquad-zh", "private-clapnq", "private-de")
BASELINES = ("BM25", "vectors", "RRF")
DEFAULTS = GraphSettings()
TERMS = ("owner_weight", "user_weight", "community_weight", "complement_boost", "conflict_weight", "neighbour_weight")
NO_GRAPH = replace(DEFAULTS, **dict.fromkeys(TERMS, 0.0))  # type: ignore[arg-type]
PARTS = {
    "without terms of the graph": NO_GRAPH,
    "words alone": replace(NO_GRAPH, query_similarity="words"),
    "vectors alone": replace(NO_GRAPH, query_similarity="vectors"),
    "named owner off": replace(DEFAULTS, owner_weight=0.0),
    "user off": replace(DEFAULTS, user_weight=0.0),
    "community off": replace(DEFAULTS, community_weight=0.0),
    "neighbours off": replace(DEFAULTS, neighbour_weight=0.0),
    "hop over time off": replace(DEFAULTS, time_hop=False),
    "not calibrated": replace(DEFAULTS, calibrate=False),
    "the paper's score": GraphSettings.ablation("full"),
}

Answer = Callable[[Asked], Sequence[str]]
"""The names of the notes that are found for a question, best first."""


@dataclass
class Figures:
    """What one system reached at each question."""

    found: list[float] = field(default_factory=list)
    reciprocal: list[float] = field(default_factory=list)

    def ask(self, world: World, answer: Answer) -> None:
        for asked in world.questions:
            hits = answer(asked)
            self.found.append(len(asked.wanted.intersection(hits[:K])) / len(asked.wanted))
            self.reciprocal.append(next((1 / place for place, hit in enumerate(hits, 1) if hit in asked.wanted), 0.0))

    def record(self, first: Figures) -> dict[str, Any]:
        """The figures, also as differences from those of the first system."""
        return {
            "R@10": mean_of(self.found),
            "MRR": mean_of(self.reciprocal),
            "R@10 beyond the first": difference_of(self.found, first.found),
            "MRR beyond the first": difference_of(self.reciprocal, first.reciprocal),
        }


class EmbeddedOnce:
    """An embedder that computes each text once, however many systems are measured."""

    def __init__(self, name: str) -> None:
        self._embedder, self._rows = open_embedder(name), dict[tuple[str, bool], Float32Array]()
        about = self._embedder
        self.name, self.version, self.dimensions = about.name, about.version, about.dimensions

    def embed(self, texts: Sequence[str]) -> Float32Array:
        return self._embed(texts, query=False)

    def embed_queries(self, texts: Sequence[str]) -> Float32Array:
        return self._embed(texts, query=True)

    def _embed(self, texts: Sequence[str], query: bool) -> Float32Array:
        missing = list(dict.fromkeys(text for text in texts if (text, query) not in self._rows))
        rows = embedded(self._embedder, missing, query=query)
        self._rows.update(zip([(text, query) for text in missing], rows, strict=True))
        return np.array([self._rows[text, query] for text in texts], np.float32).reshape(len(texts), self.dimensions)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    embedders = {name: EmbeddedOnce(name) for name in options.embedders}
    choosing = options.sets == ["choosing"]
    rows, texts = [], list[str]()
    for chosen in sets_below(options.data, _names(options.sets)):
        worlds = list(chosen.read(options.data / chosen.path))
        if chosen.name == "locomo":
            worlds = worlds[:HALF] if choosing else worlds[HALF:]
        texts = texts or [note.text for world in worlds for note in world.notes.values()]
        print(f"{chosen.name}: {sum(len(world.questions) for world in worlds)} questions", file=sys.stderr)
        found = _graphs(chosen, worlds, embedders, PARTS if options.parts else {})
        first = found["skill graph"]
        rows.append(
            {
                "set": chosen.name,
                "licence": chosen.licence,
                "notes": sum(len(world.notes) for world in worlds),
                "questions": len(first.reciprocal),
                "systems": {name: some.record(first) for name, some in found.items()},
            }
        )
    costs = {name: _cost(name, texts) for name in options.embedders} if len(options.embedders) > 1 else {}
    return {"embedders": options.embedders, "sets": rows, "CPU seconds for 100,000 texts": costs}


def _graphs(
    chosen: QuestionSet, worlds: Sequence[World], embedders: Mapping[str, EmbeddedOnce], parts: Mapping[str, Any]
) -> dict[str, Figures]:
    """The skill graph in its variants and with other embedders, beside the baselines."""
    (_, first), *others = embedders.items()
    variants = {"skill graph": DEFAULTS, **parts}
    found = {name: Figures() for name in (*variants, *BASELINES, *(f"skill graph, {name}" for name, _ in others))}
    for world in worlds:
        for name, answer in _baselines(world, chosen.language, first).items():
            found[name].ask(world, answer)
        graphs = [(name, settings, first) for name, settings in variants.items()]
        graphs += [(f"skill graph, {name}", DEFAULTS, embedder) for name, embedder in others]
        for name, settings, embedder in graphs:
            with SkillGraph.open(":memory:", tenant="t", embedder=embedder, settings=settings) as graph:
                found[name].ask(world, remembered(graph, world))
    return found


def remembered(graph: SkillGraph, world: World) -> Answer:
    """Add all notes, and return how to ask for their names."""
    names = {skill.id: name for name, skill in zip(world.notes, graph.add_all(world.notes.values()), strict=True)}

    return lambda asked: [names[hit.skill.id] for hit in graph.recall(asked.text, user=asked.user, k=2 * K)]


def _baselines(world: World, language: str, embedder: EmbeddedOnce) -> dict[str, Answer]:
    """Ways to ask that look at what the asking person may see."""
    private = any(note.visibility == "private" for note in world.notes.values())

    @cache
    def those_of(user: str) -> dict[str, Answer]:
        notes = world.notes.items()
        visible = {name: note.text for name, note in notes if note.visibility == "shared" or note.owner == user}
        return _searches(visible, language, embedder)

    def names_by(name: str, asked: Asked) -> Sequence[str]:
        return those_of(asked.user if private else "")[name](asked)[: 2 * K]

    return {name: partial(names_by, name) for name in BASELINES}


def _searches(notes: Mapping[str, str], language: str, embedder: EmbeddedOnce) -> dict[str, Answer]:
    import bm25s

    names, texts = list(notes), list(notes.values())
    index = bm25s.BM25()
    index.index([_words(text, language) for text in texts], show_progress=False)
    rows = embedder.embed(texts)

    def by_words(asked: Asked) -> list[str]:
        scores = index.get_scores(_words(asked.text, language))
        return [names[place] for place in np.argsort(-scores, kind="stable")[:DEEP]]

    def by_vectors(asked: Asked) -> list[str]:
        similar = rows @ embedder.embed_queries([asked.text])[0]
        return [names[place] for place in np.argsort(-similar, kind="stable")[:DEEP]]

    def by_ranks(asked: Asked) -> list[str]:
        points: dict[str, float] = {}
        for ranking in (by_words(asked), by_vectors(asked)):
            for place, name in enumerate(ranking, 1):
                points[name] = points.get(name, 0.0) + 1 / (RRF + place)
        return sorted(points, key=lambda name: -points[name])

    return dict(zip(BASELINES, (by_words, by_vectors, by_ranks), strict=True))


def _words(text: str, language: str) -> list[str]:
    """The terms of a baseline that somebody would write in an afternoon."""
    words = re.findall(r"\w+", text.casefold())
    if language:
        return [_stemmer(language)(word) for word in words if word not in _stop_words(language)] or words
    return [
        pair for word in words for pair in ([word] if word.isascii() or len(word) < 2 else map("".join, pairwise(word)))
    ]


@cache
def _stop_words(language: str) -> frozenset[str]:
    """The list of bm25s. For some languages it has none."""
    from bm25s import stopwords

    name = "EN_PLUS" if language == "english" else language.upper()
    return frozenset(getattr(stopwords, f"STOPWORDS_{name}", ()))


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    import snowballstemmer

    return cache(snowballstemmer.stemmer(language).stemWord)


def _cost(name: str, texts: Sequence[str]) -> float:
    """CPU seconds for many texts, of which a sample is embedded after the embedder was loaded."""
    embedder, some = open_embedder(name), texts[:: max(1, len(texts) // SAMPLE)][:SAMPLE]
    embedder.embed(some[:3])
    began = time.process_time()
    embedder.embed(some)
    return (time.process_time() - began) * MANY / len(some)


def _names(wanted: Sequence[str]) -> list[str]:
    reporting = [one.name for one in SETS if one.name not in CHOOSING or one.name == "locomo"]
    groups = {"choosing": list(CHOOSING), "reporting": reporting}
    return [name for one in wanted for name in groups.get(one, [one])]


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        data=(Path, "folder in which the sets' repositories were cloned"),
        embedders=["wordllama"],
        parts=(False, "also change parts of the score, or turn them off"),
    )
    names = [one.name for one in SETS]
    parser.add_argument("--sets", nargs="+", choices=["choosing", "reporting", *names], default=["reporting"])
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json)


if __name__ == "__main__":
    main()
