"""What it costs that every call of a plugin is guarded: CPU seconds of whole runs, with guards and without.

A guard names the component in whatever goes wrong, and limits its time. Without it, the same call is made directly.
Each repetition plays both, one after the other, and the ratio is the median of the repetitions.

    python tests/benchmarks/guard_cost.py
    python tests/benchmarks/guard_cost.py --episodes 5 --repeats 1 --json

The runs have cheap policies and worlds, where a guard weighs most.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from ratios import ratio_of

from agentfw import Host
from agentfw.runs.components import Guard
from agentfw.runs.run import Run
from agentfw.runs.spec import parse_spec
from agentfw.testing import fresh_host

SPECS: dict[str, dict[str, Any]] = {
    "inbox": {"environment": "inbox"},
    "inbox with a memory": {"environment": "inbox", "memories": ["strategyhub"]},
    "budget": {"environment": "budget"},
}

Answer = TypeVar("Answer")


class Unguarded(Guard):
    """Calls directly."""

    def calling(self, call: str, episode: str = "") -> AbstractContextManager[None]:  # type: ignore[override]
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
        patch("agentfw.runs.run_environment.Guard", guard),
    ):
        run = Run.create(parse_spec(spec), host, Path(folder))
        began = time.process_time()
        asyncio.run(run.execute())
        return time.process_time() - began


def measure(episodes: int, repeats: int) -> dict[str, Any]:
    host = fresh_host(builtins=True, strict=False)
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


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    result = measure(options.episodes, options.repeats)
    if options.json:
        print(json.dumps(result))
        return result
    print(f"CPU seconds of {options.episodes} episodes, {options.repeats} repetitions")
    print(f"{'':22} {'guarded':>8} {'direct':>8} {'ratio':>6}")
    for name, row in result["rows"].items():
        print(f"{name:22} {row['guarded']:8.3f} {row['direct']:8.3f} {row['ratio']['median']:6.2f}")
    return result


if __name__ == "__main__":
    main()
