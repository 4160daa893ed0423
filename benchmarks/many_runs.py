"""Many runs below one directory: begun at once, and listed.

    python benchmarks/many_runs.py
    python benchmarks/many_runs.py --begun 20 --listed 600 --processes 2 --json

`begun` are runs whose folders several processes create at the same moment. `listed` is how long `agentfw runs list`
takes beside so many runs: for the first time, and again when nothing has changed and when one run has.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agentfw import Host, Run
from agentfw.runs import parse_spec
from agentfw_benchmarks import Options, answer_of, print_aligned, tell

SPEC = {"environment": "inbox", "policy": "scripted", "episodes": 2, "seed": 1}


def begin(root: Path, count: int) -> list[str]:
    """What one process does."""
    host, spec = Host.load(), parse_spec(SPEC)
    return [Run.create(spec, host, root).id for _ in range(count)]


def listing(root: Path) -> tuple[float, float]:
    """Seconds of `agentfw runs list`, and of its processor."""
    began, before = time.perf_counter(), _processor()
    command = [sys.executable, "-m", "agentfw", "runs", "list", "--runs", str(root), "--json"]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began, _processor() - before


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def told(seconds: tuple[float, float]) -> str:
    return f"{seconds[0]:.2f} s, {seconds[1]:.2f} s of CPU"


def measure(begun: int, listed: int, processes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="agentfw-runs-") as folder:
        root, empty = Path(folder) / "runs", Path(folder) / "empty"
        empty.mkdir()
        started = time.perf_counter()
        stage = ["--stage", root, "--begun", begun // processes]
        with ThreadPoolExecutor(processes) as pool:
            found = [name for one in pool.map(lambda _: answer_of(__file__, *stage), range(processes)) for name in one]
        seconds = time.perf_counter() - started
        complete = sum((root / name / "run.json").exists() for name in set(found))
        pattern = (root / found[0] / "run.json").read_text("utf-8")
        for number in range(listed - len(found)):
            new = root / f"2026-01-01-inbox-{number:08x}"
            new.mkdir()
            (new / "run.json").write_text(pattern, "utf-8")
        nothing, first = min(listing(empty) for _ in range(3)), listing(root)
        again = [listing(root) for _ in range(5)]
        shutil.rmtree(root / found[0])
        return {
            "begun": len(found),
            "of these complete and different": complete,
            "begun in s": round(seconds, 1),
            "listed": listed,
            "list, no run": told(nothing),
            "list, first time": told(first),
            "list, again (median)": told(sorted(again)[2]),
            "list, one run gone": told(listing(root)),
        }


def show(result: dict[str, Any]) -> None:
    print_aligned(["what", ""], [[name, str(figure)] for name, figure in result.items()])


def main(arguments: Sequence[str] | None = None) -> Any:
    parser = Options(
        __doc__,
        begun=(1000, "number of runs that are begun at once"),
        listed=(20_000, "number of runs that are listed"),
        processes=(8, "number of processes that begin them"),
    )
    parser.add_argument("--stage", type=Path, help="for the processes that this program starts")
    options = parser.parse_args(arguments)
    if options.stage:
        names = begin(options.stage, options.begun)
        print(json.dumps(names))
        return names
    return tell(measure(options.begun, options.listed, options.processes), options.json, show)


if __name__ == "__main__":
    main()
