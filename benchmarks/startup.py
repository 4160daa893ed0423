"""How much CPU time it takes until `agentfw` answers: the help, and lists with many more plugins, and broken ones.

It is the CPU time (user and system) of whole processes, with compiled bytecode, beside a Python that does nothing. That
is what a person waits for on a quiet machine, and other processes change it little.

    python benchmarks/startup.py
    python benchmarks/startup.py --components 100000 --runs 3 --json

The help has to name no component, and a list names each broken plugin with its distribution and its error.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from agentfw_benchmarks import AGENTFW, Options, print_aligned, tell

PLUGINS = 200


class Measured(NamedTuple):
    what: str
    median: float
    least: float
    budget: float | None
    """Seconds that the median may take; None where it is only there to compare with."""

    @property
    def kept(self) -> bool:
        return self.budget is None or self.median <= self.budget


def measure(what: str, command: Sequence[str], path: str, runs: int, budget: float | None) -> Measured:
    """The CPU time of a command, after two runs that nobody counts: they write the bytecode and warm the disk cache."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = path
    seconds = []
    for number in range(runs + 2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if number >= 2:
            seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return Measured(what, statistics.median(seconds), min(seconds), budget)


def make_plugins(folder: Path, plugins: int = PLUGINS, tools: int = 1, before: str = "") -> None:
    """Distributions, each with a plugin that offers tools and has a heavy module that nobody should import.

    `before` is code of each plugin's module.
    """
    folder.mkdir()
    for number in range(plugins):
        package = folder / f"agentfw_sample_{number}"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "heavy.py").write_text("raise ImportError('nobody asked for this')\n")
        (package / "plugin.py").write_text(
            f"from agentfw import Component, hookimpl\n\n{before}\n@hookimpl\ndef agentfw_tools():\n"
            f"    names = [f'sample-{number}-{{each}}' for each in range({tools})]\n"
            f"    return [Component(name, '{package.name}.heavy:Tool', 'Number {number}') for name in names]\n"
        )
        dist_info = folder / f"{package.name}-1.0.0.dist-info"
        dist_info.mkdir()
        (dist_info / "METADATA").write_text(f"Name: {package.name}\nVersion: 1.0.0\n")
        (dist_info / "entry_points.txt").write_text(f"[agentfw]\nsample-{number} = {package.name}.plugin\n")


def show(rows: list[Measured], runs: int) -> None:
    print(f"CPU seconds, {runs} runs each")
    budgets = ["" if row.budget is None else f"{row.budget:.2f} {'kept' if row.kept else 'BROKEN'}" for row in rows]
    cells = [[row.what, f"{row.median:.3f}", f"{row.least:.3f}", one] for row, one in zip(rows, budgets, strict=True)]
    print_aligned(["", "median", "min", "budget"], cells)


def main(arguments: Sequence[str] | None = None) -> int:
    options = Options(
        __doc__, components=(1000, "tools of 50 plugins"), zoo=(200, "number of broken plugins"), runs=20
    ).parse_args(arguments)
    shown, runs, count = [*AGENTFW, "plugins", "list"], options.runs, options.components
    with tempfile.TemporaryDirectory() as name:
        many, several, zoo = (str(Path(name, place)) for place in ("many", "several", "zoo"))
        make_plugins(Path(many))
        make_plugins(Path(several), plugins=50, tools=count // 50)
        make_plugins(Path(zoo), plugins=options.zoo, before="raise RuntimeError('broken')\n")
        rows = [
            measure("python -c pass", [sys.executable, "-c", "pass"], "", runs, None),
            measure("agentfw --help", [*AGENTFW, "--help"], "", runs, 0.15),
            measure("agentfw plugins list", shown, "", runs, None),
            measure(f"... with {PLUGINS} more plugins", shown, many, runs, 0.30),
            measure(f"... with {count:,} tools of 50 plugins", shown, several, runs, 0.5 if count == 1000 else None),
            measure(f"agentfw --help with {count:,} tools", [*AGENTFW, "--help"], several, runs, 0.15),
            measure(f"... with {options.zoo} broken plugins", shown, zoo, runs, None),
        ]
    found = [{**row._asdict(), "kept": row.kept} for row in rows]
    tell(found, options.json, lambda _: show(rows, runs))
    return 0 if all(row.kept for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
