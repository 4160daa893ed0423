"""A LangGraph store with many namespaces: CPU time of a get, a search and a put in one's own, also after others wrote.

    python benchmarks/memory_namespaces.py --namespaces 20000

It needs the extras `memory` and `adapters`.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, tell
from agentfw_memory import SkillGraph
from agentfw_memory.adapters.langgraph import SkillGraphStore

BATCH = 2_000
ABOUT = (
    "tea",
    "coffee",
    "the train",
    "the dentist",
    "a meeting",
    "the garden",
    "a holiday",
    "the rent",
    "music",
    "bread",
)


def measure(namespaces: int, items: int, calls: int, embedder: str, seed: int, folder: Path) -> dict[str, Any]:
    generator = random.Random(seed)
    from langgraph.store.base import PutOp

    with SkillGraph.open(folder / "skills.db", tenant="team", embedder=embedder) as graph:
        store = SkillGraphStore(graph)
        began = time.process_time()
        puts = [
            PutOp(("memories", f"user{user}"), f"note{item}", {"text": _note(generator)})
            for user in range(namespaces)
            for item in range(items)
        ]
        for start in range(0, len(puts), BATCH):
            store.batch(puts[start : start + BATCH])
        filling = time.process_time() - began
        began = time.process_time()
        store.search(("memories", "user0"), query="tea")
        first = time.process_time() - began
        users = [f"user{generator.randrange(namespaces)}" for _ in range(calls)]

        def timed(call: Callable[[str], object]) -> dict[str, float]:
            took = []
            for user in users:
                start = time.process_time()
                call(user)
                took.append(1e3 * (time.process_time() - start))
            took.sort()
            return {"median": took[len(took) // 2], "p95": took[int(0.95 * len(took))]}

        def written_and_searched(user: str) -> None:
            store.put(("memories", user), f"new{generator.random()}", {"text": _note(generator)})
            store.search(("memories", user), query="what about tea?")

        return {
            "namespaces": namespaces,
            "items": len(puts),
            "adds per second": len(puts) / filling,
            "seconds of the first search": first,
            "milliseconds": {
                "get": timed(lambda user: store.get(("memories", user), "note0")),
                "search": timed(lambda user: store.search(("memories", user), query="what about tea?")),
                "search without a query": timed(lambda user: store.search(("memories", user))),
                "put and search": timed(written_and_searched),
            },
        }


def _note(generator: random.Random) -> str:
    return f"{generator.choice(ABOUT)} and {generator.choice(ABOUT)}, number {generator.randrange(10_000)}"


def show(result: dict[str, Any]) -> None:
    items, adds = f"{result['items']:,} items", f"{result['adds per second']:,.0f} adds a second"
    print(f"{result['namespaces']:,} namespaces, {items}, {adds}")
    print(f"first search {result['seconds of the first search']:.1f} s; milliseconds of CPU:")
    for what, took in result["milliseconds"].items():
        print(f"  {what:24}median {took['median']:7.2f}   p95 {took['p95']:7.2f}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, namespaces=20_000, items=5, calls=300, embedder="hash", seed=7).parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        chosen = (options.namespaces, options.items, options.calls, options.embedder, options.seed)
        return tell(measure(*chosen, Path(folder)), options.json, show)


if __name__ == "__main__":
    main()
