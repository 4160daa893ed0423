"""Plants 328 small faults, one at a time, in a copy of the source tree: how many do the tests notice?

Each fault is a slip where two mechanisms meet, which a user would suffer from. All tests of the README's command run
once first, under coverage, to see who runs which lines; then, for each fault, those that run what it changes, until one
fails. The faults are in `library/agentfw_benchmarks/mutants/faults/`, a file for each area.
Each outcome is kept in `--results` at once: the same command goes on after an interruption.

    python benchmarks/mutants.py                              # two or three hours on two cores; exits 1 below --floor
    python benchmarks/mutants.py --area memory --retry        # measure again those of an area that weren't noticed
    python benchmarks/mutants.py --only kto-weights-swapped
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentfw_benchmarks import ROOT, Options, print_aligned, tell
from agentfw_benchmarks.mutants import (
    PACKAGES,
    Area,
    Copy,
    Fault,
    Sources,
    Traces,
    measure_fault,
    plant,
    read_areas,
    record_traces,
)


class Kept:
    """The outcomes on disk, each with the digest of its fault. Those of faults that changed don't count."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        self._lock = threading.Lock()

    def of(self, fault: Fault) -> dict[str, Any] | None:
        outcome = self._outcomes.get(fault.name)
        return outcome if outcome and outcome["digest"] == _digest(fault) else None

    def keep(self, fault: Fault, outcome: dict[str, Any]) -> None:
        with self._lock:
            self._outcomes[fault.name] = {**outcome, "digest": _digest(fault)}
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps(self._outcomes, indent=1) + "\n", "utf-8")
            os.replace(new, self._path)


def _digest(fault: Fault) -> str:
    return hashlib.sha256(f"{fault.where}\0{fault.old or fault.text}\0{fault.new}".encode()).hexdigest()[:12]


def measure(
    chosen: list[tuple[Area, Fault]], kept: Kept, traces: Path, *, jobs: int, retry: bool, limit: float
) -> dict[str, Any]:
    """Measure what isn't kept yet, and summarise all that was chosen."""
    sources = Sources(ROOT)
    for _, fault in chosen:
        plant(fault, sources)  # before any work, an error for those that don't fit
    waiting: queue.SimpleQueue[tuple[Area, Fault]] = queue.SimpleQueue()
    for area, fault in chosen:
        outcome = kept.of(fault)
        if outcome is None or (retry and not outcome["noticed"]):
            waiting.put((area, fault))
    errors: list[BaseException] = []

    def work(copy: Copy) -> None:
        known = Traces(traces)
        try:
            while not errors:
                area, fault = waiting.get_nowait()
                outcome = measure_fault(fault, area, copy, known)
                kept.keep(fault, asdict(outcome))
                told = f"noticed by {outcome.by}" if outcome.noticed else f"NOT NOTICED {outcome.by}"
                print(f"{area.name} {fault.name}: {told}, {outcome.seconds:.0f} s", file=sys.stderr, flush=True)
        except queue.Empty:
            pass
        except BaseException as error:
            errors.append(error)

    if not waiting.empty():
        if not traces.exists():
            record_traces(ROOT, PACKAGES, traces)
        copies: list[Copy] = []
        with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
            os.chmod(folder, 0o755)  # a PostgreSQL server that a test starts as root runs as another user
            try:
                copies += [Copy(ROOT, Path(folder) / str(number), limit) for number in range(jobs)]
                workers = [threading.Thread(target=work, args=[copy], daemon=True) for copy in copies]
                for worker in workers:
                    worker.start()
                for worker in workers:
                    worker.join()
            finally:
                for copy in copies:
                    copy.stop()
    if errors:
        raise errors[0]
    return _summary([(area, fault, kept.of(fault) or {}) for area, fault in chosen])


def _summary(measured: list[tuple[Area, Fault, dict[str, Any]]]) -> dict[str, Any]:
    rows = []
    for name in dict.fromkeys(area.name for area, _, _ in measured):
        own = [outcome for area, _, outcome in measured if area.name == name]
        seconds = sum(outcome["seconds"] for outcome in own)
        rows.append(
            {"area": name, "faults": len(own), "noticed": sum(o["noticed"] for o in own), "seconds": round(seconds)}
        )
    noticed = sum(row["noticed"] for row in rows)
    return {
        "faults": len(measured),
        "noticed": noticed,
        "share": round(noticed / max(1, len(measured)), 3),
        "areas": rows,
        "unnoticed": [
            {
                "area": area.name,
                "name": fault.name,
                "where": fault.where,
                "suffers": fault.suffers,
                "but": outcome["by"],
            }
            for area, fault, outcome in measured
            if not outcome["noticed"]
        ],
        "outcomes": [
            {key: outcome[key] for key in ("name", "noticed", "by", "tests", "seconds")} for *_, outcome in measured
        ],
    }


def show(result: dict[str, Any]) -> None:
    print(f"{result['noticed']} of {result['faults']} planted faults noticed ({result['share']:.0%})\n")
    print_aligned(
        ["area", "faults", "noticed", "seconds"],
        [[row["area"], str(row["faults"]), str(row["noticed"]), str(row["seconds"])] for row in result["areas"]],
    )
    if result["unnoticed"]:
        print("\nnot noticed:")
    for each in result["unnoticed"]:
        print(
            f"  {each['area']} {each['name']}, in {each['where']}: {each['suffers']}"
            + (each["but"] and f" ({each['but']})")
        )


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        jobs=(1, "how many copies are tested at once"),
        floor=(0.90, "the share that must be noticed"),
        limit=(900.0, "seconds for each group of tests of a fault"),
        results=("mutants.json", "file of outcomes, to go on with"),
        traces=("mutants.traces", "file that says which tests run which lines; is made if it isn't there"),
        retry=(False, "measure again what wasn't noticed"),
    )
    options.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these faults")
    options.add_argument("--area", default="", help="the faults of one area")
    given = options.parse_args(arguments)
    areas = read_areas()
    everything = [(area, fault) for area in areas for fault in area.faults]
    if unknown := {*given.only} - {fault.name for _, fault in everything}:
        options.error(f"no fault is called {', '.join(sorted(unknown))}")
    if given.area and given.area not in (names := [area.name for area in areas]):
        options.error(f"no area is called {given.area}; there are {', '.join(names)}")
    chosen = [
        (area, fault)
        for area, fault in everything
        if (not given.only or fault.name in given.only) and given.area in ("", area.name)
    ]
    kept = Kept(Path(given.results))
    result = measure(chosen, kept, Path(given.traces).absolute(), jobs=given.jobs, retry=given.retry, limit=given.limit)
    return tell(result, given.json, show) | {"floor": given.floor}


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # the tests that run are ended, and the copies removed
        signal.signal(number, signal.default_int_handler)
    _result = main()
    sys.exit(_result["share"] < _result["floor"])
