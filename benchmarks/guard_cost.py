"""What it costs that every call of a plugin is guarded: CPU seconds of whole runs, with guards and without.

A guard names the component in whatever goes wrong, and limits its time. Without it, the same call is made directly.
Each repetition plays both, one after the other, and the ratio is the median of the repetitions.

    python benchmarks/guard_cost.py
    python benchmarks/guard_cost.py --episodes 5 --repeats 1 --json

The runs have cheap policies and worlds, where a guard weighs most. Then what a guard adds to a single call, awaited
(`recall`) and not (`begin`).
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from agentfw import Host
from agentfw.boundary.calls import Call
from agentfw.boundary.coroutines import Deadline
from agentfw.boundary.crossing import Guarded, GuardedMemory
from agentfw.boundary.forms import Passage
from agentfw.boundary.guard import Guard
from agentfw.episode import Task
from agentfw.memory import Memory, Query
from agentfw.runs.records.call_record import CallRecord
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import Choice, parse_spec
from agentfw_benchmarks import Options, print_aligned, ratio_of, tell

SPECS: dict[str, dict[str, Any]] = {
    "inbox": {"environment": "inbox"},
    "inbox with a memory": {"environment": "inbox", "memories": ["strategyhub"]},
    "budget": {"environment": "budget"},
}


class Unguarded(Guard):
    """Calls directly."""

    def calling(  # type: ignore[override]
        self, call: str, episode: str = "", passes: object = ()
    ) -> AbstractContextManager[None]:
        return nullcontext()


async def directly(layer: Guarded, call: Call, given: tuple[Any, ...]) -> Any:
    """Makes a call as a guard does, with copies and checks, but without a deadline and a name to blame."""
    passage = Passage(layer, call, given)
    passage.deadline = Deadline(layer.guard.deadline)
    return passage.check(await passage.ask())


FILES = {
    "memory": """
from agentfw import Memory
from agentfw.memory import Recollection


class Remembering(Memory):
    async def recall(self, query):
        return [Recollection("it was tea", 0.5)]
""",
    "reward": """
from agentfw import RewardModel, Score


class Scoring(RewardModel):
    async def score(self, group):
        return [Score(episode.id, "ease", 1.0) for episode in group]
""",
}
"""A component of each kind that answers at once."""


def microseconds(calls: int) -> dict[str, float]:
    """CPU time that the guard of a memory adds to a call, while the calls are recorded as in a run.

    It is the least of 15 spans, because other work on the machine only adds to a span, also to its CPU time.
    """
    with tempfile.TemporaryDirectory() as folder:
        file, host, counts = Path(folder) / "memory.py", Host.load(), CallRecord()
        file.write_text(FILES["memory"], "utf-8")
        made = host.make("memory", Choice(name=str(file)), Memory)
        guarded = GuardedMemory(made, host.guard("memory", str(file), 600.0, counts=counts))
        counts.open(Path(folder))
        task = Task(0, 7)
        query = Query("which tea?", task)

        async def spent(memory: Memory, *, waits: bool) -> float:
            spans = []
            for _ in range(15):
                began = time.process_time()
                for _ in range(calls):
                    if waits:
                        await memory.recall(query)
                    else:
                        memory.begin(task)
                spans.append(1e6 * (time.process_time() - began) / calls)
            return min(spans)

        async def both() -> dict[str, float]:
            found = {}
            for name, waits in (("recall", True), ("begin", False)):
                found[name] = round(await spent(guarded, waits=waits) - await spent(made, waits=waits), 2)
            return found

        return asyncio.run(both())


def seconds(spec: dict[str, Any], host: Host, guard: type[Guard]) -> float:
    """CPU seconds of one run."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch("agentfw.host.host.Guard", guard),
        patch.object(Guarded, "in_time", Guarded.in_time if guard is Guard else directly),
    ):
        run = Run.create(parse_spec(spec), host, Path(folder))
        began = time.process_time()
        asyncio.run(run.execute())
        return time.process_time() - began


def measure(episodes: int, repeats: int, calls: int) -> dict[str, Any]:
    host = Host.load()  # the world budget is one of the papers
    rows = {}
    for name, spec in SPECS.items():
        whole = {"policy": "random", "episodes": episodes, **spec}
        found: dict[type[Guard], list[float]] = {Guard: [], Unguarded: []}
        for guard in found:
            seconds(whole, host, guard)  # imports and caches
        for _ in range(repeats):
            for guard, values in found.items():
                values.append(seconds(whole, host, guard))
        rows[name] = {
            "guarded": round(statistics.median(found[Guard]), 4),
            "direct": round(statistics.median(found[Unguarded]), 4),
            "ratio": ratio_of(found[Guard], found[Unguarded]),
        }
    return {
        "episodes": episodes,
        "repeats": repeats,
        "rows": rows,
        "microseconds": microseconds(calls),
    }


def show(result: dict[str, Any]) -> None:
    print(f"CPU seconds of {result['episodes']} episodes, {result['repeats']} repetitions")
    rows = [
        [name, f"{row['guarded']:.3f}", f"{row['direct']:.3f}", f"{row['ratio']['median']:.2f}"]
        for name, row in result["rows"].items()
    ]
    print_aligned(["", "guarded", "direct", "ratio"], rows)
    words = ", ".join(f"{value:.1f} for {name}()" for name, value in result["microseconds"].items())
    print(f"\nMicroseconds that a guard adds to a call: {words}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, episodes=60, repeats=9, calls=2000).parse_args(arguments)
    return tell(measure(options.episodes, options.repeats, options.calls), options.json, show)


if __name__ == "__main__":
    main()
