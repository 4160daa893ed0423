"""What plugins cost in CPU time: until `agentfw` answers, with many more of them, and by the guards.

    python benchmarks/startup.py
    python benchmarks/startup.py --guards 9

It is the CPU time (user and system) of whole processes, with compiled bytecode. That is what a person waits for on a
quiet machine, and other processes change it little. The help has to name no component.

A guard around a call of a plugin names the component in whatever goes wrong, and limits its time. Each repetition of
`--guards` plays whole runs with guards and without, one after the other, and the ratio is their median. The policies
and worlds are cheap ones, where a guard weighs most. Then it is told what a guard adds to a single call, awaited
(`recall`) and not (`begin`).
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from agentfw import Host
from agentfw.boundary.crossing import Guarded, GuardedMemory
from agentfw.boundary.forms import Call, Passage
from agentfw.boundary.guard import Deadline, Guard
from agentfw.episode import Task
from agentfw.memory import Memory, Query
from agentfw.runs.records.call_record import CallRecord
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import Choice, parse_spec
from agentfw_benchmarks import AGENTFW, Options, ratio_of, tell

PLUGINS = 200


def measure(what: str, words: Sequence[str], path: str, runs: int, budget: float) -> dict[str, Any]:
    """The CPU time of a command, after two runs that nobody counts: they write the bytecode and warm the disk cache."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = path
    seconds = []
    for number in range(runs + 2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*AGENTFW, *words], stdout=subprocess.DEVNULL, env=environment, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if number >= 2:
            seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    median = statistics.median(seconds)
    return {"what": what, "median": median, "least": min(seconds), "budget": budget, "kept": median <= budget}


def make_plugins(folder: Path, plugins: int, tools: int) -> None:
    """Distributions, each with a plugin that offers tools and has a heavy module that nobody should import."""
    folder.mkdir()
    for number in range(plugins):
        package = folder / f"agentfw_sample_{number}"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "heavy.py").write_text("raise ImportError('nobody asked for this')\n")
        (package / "plugin.py").write_text(
            f"from agentfw import Component, hookimpl\n\n\n@hookimpl\ndef agentfw_tools():\n"
            f"    names = [f'sample-{number}-{{each}}' for each in range({tools})]\n"
            f"    return [Component(name, '{package.name}.heavy:Tool', 'Number {number}') for name in names]\n"
        )
        dist_info = folder / f"{package.name}-1.0.0.dist-info"
        dist_info.mkdir()
        (dist_info / "METADATA").write_text(f"Name: {package.name}\nVersion: 1.0.0\n")
        (dist_info / "entry_points.txt").write_text(f"[agentfw]\nsample-{number} = {package.name}.plugin\n")


SPECS: dict[str, dict[str, Any]] = {
    "inbox": {"environment": "inbox"},
    "inbox with a memory": {"environment": "inbox", "memories": ["strategyhub"]},
    "budget": {"environment": "budget"},
}


class Unguarded(Guard):
    """Calls directly."""

    def calling(self, *_: object, **__: object) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


async def directly(layer: Guarded, call: Call, given: tuple[Any, ...]) -> Any:
    """Makes a call as a guard does, with copies and checks, but without a deadline and a name to blame."""
    passage = Passage(layer, layer.inside, call, given)
    passage.deadline = Deadline(layer.guard.deadline)
    return passage.check(await passage.ask())


MEMORY = """
from agentfw import Memory
from agentfw.memory import Recollection


class Remembering(Memory):
    async def recall(self, query):
        return [Recollection("it was tea", 0.5)]
"""


def microseconds(calls: int) -> dict[str, float]:
    """CPU time that the guard of a memory adds to a call, while the calls are recorded as in a run.

    It is the least of 15 spans, because other work on the machine only adds to a span, also to its CPU time.
    """
    with tempfile.TemporaryDirectory() as folder:
        file, host, counts = Path(folder) / "memory.py", Host.load(), CallRecord()
        file.write_text(MEMORY, "utf-8")
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


def guard_costs(episodes: int, repeats: int, calls: int) -> dict[str, Any]:
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
    return {"episodes": episodes, "repeats": repeats, "rows": rows, "microseconds": microseconds(calls)}


def main(arguments: Sequence[str] | None = None) -> int:
    options = Options(
        __doc__,
        components=(1000, "tools of 50 plugins"),
        runs=20,
        guards=(0, "measure the guards instead, so many times"),
        episodes=(60, "of each run"),
        calls=2000,
    ).parse_args(arguments)
    if options.guards:
        tell(guard_costs(options.episodes, options.guards, options.calls), options.json)
        return 0
    plugins, runs, count = ["plugins", "list"], options.runs, options.components
    with tempfile.TemporaryDirectory() as name:
        many, several = str(Path(name, "many")), str(Path(name, "several"))
        make_plugins(Path(many), PLUGINS, 1)
        make_plugins(Path(several), 50, count // 50)
        rows = [
            measure("agentfw --help", ["--help"], "", runs, 0.15),
            measure(f"agentfw plugins list, {PLUGINS} more plugins", plugins, many, runs, 0.30),
            measure(f"agentfw plugins list, {count:,} tools of 50 plugins", plugins, several, runs, 0.5),
            measure(f"agentfw --help, {count:,} tools of 50 plugins", ["--help"], several, runs, 0.15),
        ]
    tell(rows, options.json)
    return 0 if all(row["kept"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
