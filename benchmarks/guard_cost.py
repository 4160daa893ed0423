"""What it costs that every call of a plugin is guarded: CPU seconds of whole runs, with guards and without.

A guard names the component in whatever goes wrong, and limits its time. Without it, the same call is made directly.
Each repetition plays both, one after the other, and the ratio is the median of the repetitions.

    python benchmarks/guard_cost.py
    python benchmarks/guard_cost.py --episodes 5 --repeats 1 --json

The runs have cheap policies and worlds, where a guard weighs most.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from agentfw import Host
from agentfw.runs.components.creation import Guard
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw_benchmarks import Options, print_aligned, ratio_of, tell

SPECS: dict[str, dict[str, Any]] = {
    "inbox": {"environment": "inbox"},
    "inbox with a memory": {"environment": "inbox", "memories": ["strategyhub"]},
    "budget": {"environment": "budget"},
}

Answer = TypeVar("Answer")


class Unguarded(Guard):
    """Calls directly."""

    def calling(  # type: ignore[override]
        self, call: str, episode: str = "", *, counted: bool = False
    ) -> AbstractContextManager[None]:
        return nullcontext()

    async def answer(
        self, call: str, ask: Callable[[], Awaitable[Answer]], episode: str = "", late: object = None
    ) -> Answer:
        return await ask()


def seconds(spec: dict[str, Any], host: Host, guard: type[Guard]) -> float:
    """CPU seconds of one run."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch("agentfw.runs.assembly.Guard", guard),
        patch("agentfw.runs.components.run_environment.Guard", guard),
    ):
        run = Run.create(parse_spec(spec), host, Path(folder))
        began = time.process_time()
        asyncio.run(run.execute())
        return time.process_time() - began


def measure(episodes: int, repeats: int) -> dict[str, Any]:
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
    return {"episodes": episodes, "repeats": repeats, "rows": rows}


def show(result: dict[str, Any]) -> None:
    print(f"CPU seconds of {result['episodes']} episodes, {result['repeats']} repetitions")
    rows = [
        [name, f"{row['guarded']:.3f}", f"{row['direct']:.3f}", f"{row['ratio']['median']:.2f}"]
        for name, row in result["rows"].items()
    ]
    print_aligned(["", "guarded", "direct", "ratio"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, episodes=60, repeats=9).parse_args(arguments)
    return tell(measure(options.episodes, options.repeats), options.json, show)


if __name__ == "__main__":
    main()
