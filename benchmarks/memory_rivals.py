"""The skill graph beside mem0 and LangMem on the same public sets, each without a paid model.

    git clone https://github.com/danny911kr/REALTALK          # LoCoMo is in it too; see memory_sets.py for the others
    python -m venv /tmp/mem0 && /tmp/mem0/bin/pip install "mem0ai==2.2.1"
    python benchmarks/memory_rivals.py --data FOLDER_OF_THE_CLONES --mem0 /tmp/mem0/bin/python

mem0 stores texts as they are (`infer=False`), in Qdrant, its default. LangMem without a model is a search in a
LangGraph store, so that store is asked, in memory, with vectors. All three get the same vectors from one embedder,
which aren't counted in the times. Adds are one at a time. A recall's time is CPU of the thread that recalls.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

os.environ.setdefault("OMP_NUM_THREADS", "1")

from memory_locomo import EmbeddedOnce, Figures

from agentfw_benchmarks import Options, mean_of, median_of, print_aligned, shown, tell
from agentfw_benchmarks.mem0_side import Mem0
from agentfw_benchmarks.question_sets import SETS, Asked, World, sets_below
from agentfw_memory import NewSkill, SkillGraph
from agentfw_memory.graph.index.embedders import open_embedder

K = 10


class Side(Protocol):
    """One memory, filled with the notes of one world."""

    def add(self, note: NewSkill) -> float:
        """Return the seconds that it took."""

    def search(self, asked: Asked) -> tuple[float, list[str]]:
        """Return seconds of CPU, and the texts that were found."""

    def close(self) -> None: ...


class Ours:
    def __init__(self, folder: Path, embedder: EmbeddedOnce) -> None:
        self._graph = SkillGraph.open(folder / "skills.db", tenant="t", embedder=embedder)

    def add(self, note: NewSkill) -> float:
        began = time.perf_counter()
        self._graph.add_skills([note])
        return time.perf_counter() - began

    def search(self, asked: Asked) -> tuple[float, list[str]]:
        began = time.thread_time()
        hits = self._graph.recall(asked.text, user=asked.user, k=K)
        return time.thread_time() - began, [hit.skill.text for hit in hits]

    def close(self) -> None:
        self._graph.close()


class Mem0Side:
    def __init__(self, folder: Path, embedder: EmbeddedOnce, python: str) -> None:
        self._embedder = embedder
        self._mem0 = Mem0(python, folder, embedder.dimensions)

    def know(self, texts: Sequence[str]) -> None:
        self._mem0.know(texts, self._embedder.embed(texts).tolist())

    def add(self, note: NewSkill) -> float:
        return self._mem0.add([note.text], "world")[0]

    def search(self, asked: Asked) -> tuple[float, list[str]]:
        (_, worked), found = self._mem0.search(asked.text, "world", K)
        return worked, found

    def close(self) -> None:
        self._mem0.close()


class LangMem:
    def __init__(self, embedder: EmbeddedOnce) -> None:
        from langgraph.store.memory import InMemoryStore

        def embed(texts: Sequence[str]) -> list[list[float]]:
            vectors: list[list[float]] = embedder.embed(texts).tolist()
            return vectors

        self._store = InMemoryStore(index={"dims": embedder.dimensions, "embed": embed, "fields": ["content"]})
        self._count = 0

    def add(self, note: NewSkill) -> float:
        self._count += 1
        began = time.perf_counter()
        self._store.put(("memories",), str(self._count), {"kind": "Memory", "content": note.text})
        return time.perf_counter() - began

    def search(self, asked: Asked) -> tuple[float, list[str]]:
        began = time.process_time()  # it embeds the question in another thread
        found = self._store.search(("memories",), query=asked.text, limit=K)
        return time.process_time() - began, [item.value["content"] for item in found]

    def close(self) -> None: ...


def measure(options: argparse.Namespace) -> dict[str, Any]:
    embedder = EmbeddedOnce(open_embedder(options.embedder))
    rows = []
    for chosen in sets_below(options.data, options.sets):
        worlds = list(islice(chosen.read(options.data / chosen.path), options.worlds or None))
        texts = [note.text for world in worlds for note in world.notes.values()]
        questions = [asked.text for world in worlds for asked in world.questions]
        embedder.embed([*texts, *questions])  # once for all of them, and not timed
        print(f"{chosen.name}: {len(texts)} notes, {len(questions)} questions", file=sys.stderr)
        rows += list(_rows(chosen.name, worlds, embedder, options.mem0))
    return {"embedder": options.embedder, "rows": rows}


def _rows(name: str, worlds: Sequence[World], embedder: EmbeddedOnce, mem0: str) -> Iterator[dict[str, Any]]:
    sides = ["skill graph", *(["mem0"] if mem0 else []), "LangMem"]
    for side in sides:
        figures, adds, recalls, disk, notes = Figures(), list[float](), list[float](), 0, 0
        for world in worlds:
            with tempfile.TemporaryDirectory() as folder:
                opened = _opened(side, Path(folder), embedder, mem0)
                if isinstance(opened, Mem0Side):
                    opened.know([note.text for note in world.notes.values()] + [one.text for one in world.questions])
                adds += [opened.add(note) for note in world.notes.values()]
                names: dict[str, list[str]] = {}
                for note, skill in world.notes.items():
                    names.setdefault(skill.text, []).append(note)
                for asked in world.questions:
                    seconds, found = opened.search(asked)
                    recalls.append(1e3 * seconds)
                    figures.note([note for text in found for note in names[text]], asked.wanted)
                opened.close()
                disk, notes = disk + _size(Path(folder)), notes + len(world.notes)
        yield {
            "set": name,
            "side": side,
            "R@10": mean_of(figures.found[K]),
            "MRR": mean_of(figures.reciprocal),
            "adds per second": len(adds) / sum(adds),
            "recall, ms of CPU": median_of(recalls),
            "MB for 10,000 notes": 10_000 * disk / notes / 1e6,
        }


def _opened(side: str, folder: Path, embedder: EmbeddedOnce, mem0: str) -> Side:
    if side == "mem0":
        return Mem0Side(folder, embedder, mem0)
    return LangMem(embedder) if side == "LangMem" else Ours(folder, embedder)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def show(result: dict[str, Any]) -> None:
    print(f"embedder {result['embedder']}")
    head = ["set", "memory", "R@10", "MRR", "adds a second", "recall, ms of CPU", "MB for 10,000"]
    rows = [
        [
            *(row["set"], row["side"], shown(row["R@10"], ".3f"), shown(row["MRR"], ".3f")),
            *(f"{row['adds per second']:,.0f}", shown(row["recall, ms of CPU"], ".2f")),
            f"{row['MB for 10,000 notes']:.1f}",
        ]
        for row in result["rows"]
    ]
    print_aligned(head, rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    about = "folder in which the sets' repositories were cloned"
    parser = Options(
        __doc__,
        data=(Path, about),
        embedder="wordllama",
        mem0=("", "the Python of an environment with mem0"),
        worlds=(0, "of each set; 0 for all"),
    )
    parser.add_argument("--sets", nargs="+", choices=[one.name for one in SETS], default=["locomo", "realtalk"])
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
