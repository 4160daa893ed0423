"""How well the skill graph finds answers in public sets, beside stemmed BM25, vectors alone, and both by ranks (RRF).

    git clone https://github.com/danny911kr/REALTALK     # and the others that the program names
    python benchmarks/memory_sets.py --data FOLDER_OF_THE_CLONES

"observed" is the share of hits that are evidence, of those whose relevance is in a range, whatever `at_least`.

Each note is a shared skill of its speaker or article. R@10 is the share of the evidence among the first ten hits, MRR
the reciprocal rank of the first hit that is evidence. BM25 is that of the package bm25s, with Snowball's stemmer of the
set's language, or over pairs of characters where words aren't separated by spaces.

Settings were chosen on `--sets choosing`: the first five conversations of LoCoMo, ClapNQ, XQuAD in English, German,
Russian and Chinese, and two of these beside private notes from LoCoMo. All others were looked at afterwards
(`--sets reporting`).
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from string import ascii_lowercase
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from memory_locomo import EmbeddedOnce, Figures

from agentfw_benchmarks import Options, difference_of, mean_of, print_aligned, shown, tell
from agentfw_benchmarks.question_sets import READER, SETS, Asked, QuestionSet, World, sets_below
from agentfw_memory import GraphSettings, SkillGraph
from agentfw_memory.graph.index.embedders import Embedder, open_embedder

K, DEEP, RRF = 10, 100, 60
HALF = 5
"""Number of LoCoMo's conversations that settings were chosen on."""
UNRELATED = 200
CHOOSING = ("locomo", "clapnq", "xquad-en", "xquad-de", "xquad-ru", "xquad-zh", "private-clapnq", "private-de")
SYSTEMS = ("skill graph", "BM25", "vectors", "RRF")
VARIANTS: dict[str, dict[str, Any]] = {
    "skill graph": {},
    "named owner off": {"owner_weight": 0.0},
    "user off": {"user_weight": 0.0},
    "community off": {"community_weight": 0.0},
    "neighbours off": {"neighbour_weight": 0.0},
    "time off": {"time_weight": 0.0},
    "nothing left out": {"at_least": 0.0},
    "second hop off": {"siblings": 0},
}
"""The skill graph with defaults, and with parts of it turned off."""

PLAIN = {name: VARIANTS[name] for name in ("skill graph", "nothing left out")}

RANGES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.01)
"""Of relevance, in which hits are counted."""

Answer = Callable[[Asked], Sequence[str]]


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    about = "folder in which the sets' repositories were cloned"
    parser = Options(__doc__, data=(Path, about), embedder="wordllama", parts=(False, "also turn parts off"))
    names = [one.name for one in SETS]
    parser.add_argument("--sets", nargs="+", choices=["choosing", "reporting", *names], default=["reporting"])
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    embedder = EmbeddedOnce(open_embedder(options.embedder))
    choosing = set(options.sets) <= {"choosing", *CHOOSING}
    rows = []
    for chosen in sets_below(options.data, _names(options.sets)):
        worlds = list(chosen.read(options.data / chosen.path))
        if chosen.name == "locomo":
            worlds = worlds[:HALF] if choosing else worlds[HALF:]
        print(f"{chosen.name}: {sum(len(world.questions) for world in worlds)} questions", file=sys.stderr)
        rows.append(_row(chosen, worlds, embedder, VARIANTS if options.parts else PLAIN))
    return {"embedder": options.embedder, "sets": rows}


def _row(
    chosen: QuestionSet, worlds: Sequence[World], embedder: Embedder, variants: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    found = {name: Figures() for name in (*variants, *SYSTEMS[1:])}
    unrelated: list[bool] = []
    judged: list[tuple[float, bool]] = []
    for world in worlds:
        for name, answer in _baselines(world, chosen.language, embedder).items():
            for asked in world.questions:
                found[name].note(answer(asked), asked.wanted)
        for name, changes in variants.items():
            with SkillGraph.open(
                ":memory:", tenant="t", embedder=embedder, settings=replace(GraphSettings(), **changes)
            ) as graph:
                answer = remembered(graph, world, judged if name == "nothing left out" else [])
                for asked in world.questions:
                    found[name].note(answer(asked), asked.wanted)
                if name == "skill graph":
                    user = world.questions[0].user if world.questions else READER
                    unrelated += [
                        not graph.recall(text, user=user, k=K) for text in _nonsense(UNRELATED // len(worlds))
                    ]
    ours = found["skill graph"]
    return {
        "set": chosen.name,
        "kind": chosen.kind,
        "licence": chosen.licence,
        "notes": sum(len(world.notes) for world in worlds),
        "questions": len(ours.reciprocal),
        "unrelated questions without an answer": mean_of([float(empty) for empty in unrelated]),
        "hits": _reliability(judged),
        "systems": {
            name: {
                **{f"R@{depth}": mean_of(some.found[depth]) for depth in (1, 5, K)},
                "MRR": mean_of(some.reciprocal),
                "R@10 of ours against it": difference_of(ours.found[K], some.found[K]),
                "MRR of ours against it": difference_of(ours.reciprocal, some.reciprocal),
            }
            for name, some in found.items()
        },
    }


def _nonsense(count: int) -> Iterator[str]:
    """Questions like "zzzz qqqq", of two to five words."""
    draw = random.Random(1)
    for _ in range(count):
        words = ("".join(draw.choices(ascii_lowercase, k=draw.randint(3, 8))) for _ in range(draw.randint(2, 5)))
        yield " ".join(words)


def _reliability(judged: Sequence[tuple[float, bool]]) -> list[dict[str, float]]:
    """How many hits of each range of relevance there are, their mean relevance, and how many are evidence."""
    rows = []
    for low, high in pairwise(RANGES):
        some = [one for one in judged if low <= one[0] < high]
        if some:
            predicted, observed = np.mean(some, axis=0)
            rows.append({"from": low, "hits": len(some), "predicted": float(predicted), "observed": float(observed)})
    return rows


def remembered(graph: SkillGraph, world: World, judged: list[tuple[float, bool]] | None = None) -> Answer:
    """Add all notes, and return how to ask for their names. The first hits' relevance and truth go to `judged`."""
    names = {skill.id: name for name, skill in zip(world.notes, graph.add_skills(world.notes.values()), strict=True)}

    def answer(asked: Asked) -> list[str]:
        hits = graph.recall(asked.text, user=asked.user, k=2 * K)
        if judged is not None:
            judged.extend((hit.relevance, names[hit.skill.id] in asked.wanted) for hit in hits[:K])
        return [names[hit.skill.id] for hit in hits]

    return answer


def _baselines(world: World, language: str, embedder: Embedder) -> dict[str, Answer]:
    """Return three ways to ask. Each looks at what the asking person may see."""

    @cache
    def those_of(user: str) -> dict[str, Answer]:
        visible = {
            name: note.text for name, note in world.notes.items() if note.visibility == "shared" or note.owner == user
        }
        return searches(visible, language, embedder)

    private = any(note.visibility == "private" for note in world.notes.values())
    return {
        name: lambda asked, name=name: those_of(asked.user if private else "")[name](asked)[: 2 * K]
        for name in SYSTEMS[1:]
    }


def searches(notes: Mapping[str, str], language: str, embedder: Embedder) -> dict[str, Answer]:
    import bm25s

    names, texts = list(notes), list(notes.values())
    index = bm25s.BM25()
    index.index([_words(text, language) for text in texts], show_progress=False)
    rows = embedder.embed(texts)
    deep = min(DEEP, len(names))

    def by_words(asked: Asked) -> list[str]:
        scores = index.get_scores(_words(asked.text, language))
        return [names[place] for place in np.argsort(-scores, kind="stable")[:deep]]

    def by_vectors(asked: Asked) -> list[str]:
        similar = rows @ embedder.embed([asked.text])[0]
        return [names[place] for place in np.argsort(-similar, kind="stable")[:deep]]

    def by_ranks(asked: Asked) -> list[str]:
        points: dict[str, float] = {}
        for ranking in (by_words(asked), by_vectors(asked)):
            for place, name in enumerate(ranking, 1):
                points[name] = points.get(name, 0.0) + 1 / (RRF + place)
        return sorted(points, key=lambda name: -points[name])

    return dict(zip(SYSTEMS[1:], (by_words, by_vectors, by_ranks), strict=True))


def _words(text: str, language: str) -> list[str]:
    """The terms of a baseline that somebody would write in an afternoon."""
    words = re.findall(r"\w+", text.casefold())
    if language:
        return [_stem(language, word) for word in words]
    return [pair for word in words for pair in _pairs(word)]


def _pairs(word: str) -> Iterator[str]:
    if word.isascii() or len(word) < 2:
        yield word
    else:
        yield from (word[place : place + 2] for place in range(len(word) - 1))


@cache
def _stem(language: str, word: str) -> str:
    return str(_stemmer(language).stemWord(word))


@cache
def _stemmer(language: str) -> Any:
    import snowballstemmer

    return snowballstemmer.stemmer(language)


def _names(wanted: Sequence[str]) -> list[str]:
    everything = [one.name for one in SETS]
    groups = {
        "choosing": list(CHOOSING),
        "reporting": [name for name in everything if name not in CHOOSING or name == "locomo"],
    }
    return [name for one in wanted for name in groups.get(one, [one])]


def show(result: dict[str, Any]) -> None:
    names = list(result["sets"][0]["systems"])
    print(
        f"embedder {result['embedder']}; in each cell R@10 and MRR; * where the skill graph is below by more than 0.005"
    )
    rows = [
        [f"{row['set']} ({row['questions']})", *(_cell(row["systems"][name], name) for name in names)]
        for row in result["sets"]
    ]
    print_aligned(["", *names], rows)
    print("\nPredicted and observed shares of hits that are evidence, by relevance:")
    ranges = [f"{low:g}" for low in RANGES[:-1]]
    cells = [
        {
            f"{part['from']:g}": f"{part['predicted']:.2f} {part['observed']:.2f} ({part['hits']})"
            for part in row["hits"]
        }
        for row in result["sets"]
    ]
    print_aligned(
        ["from", *ranges],
        [[row["set"], *(some.get(low, "") for low in ranges)] for row, some in zip(result["sets"], cells, strict=True)],
    )
    print("\nShare of 200 unrelated questions that got no hit: ", end="")
    print(
        ", ".join(f"{row['set']} {row['unrelated questions without an answer']['mean']:.3f}" for row in result["sets"])
    )


def _cell(some: dict[str, Any], name: str) -> str:
    if name == "skill graph":
        return f"{shown(some['R@10'])} {shown(some['MRR'])}"
    return " ".join(
        f"{some[what]['mean']:.3f}{'*' if some[f'{what} of ours against it']['mean'] < -0.005 else ''}"
        for what in ("R@10", "MRR")
    )


if __name__ == "__main__":
    main()
