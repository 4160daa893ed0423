"""The exam of a loop's cell again, with other weights of the policy `assistant-linear`.

    python tests/benchmarks/loop_weights.py loops/assistant/cells/Full-1 --weights shared=5 fame=1 --weights fame=1

The memory, the users and their requests are those of the cell, so the difference is what the policy could gain, were
it trained to these weights. The first row plays the exam as it was. `--temperature 1` shows how sure the policy is: at
temperature 0 the least preference decides.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from agentfw import Host, HostOptions
from agentfw.runs import RunFolder, parse_spec
from agentfw.runs.run import Run
from agentfw.statistics import bootstrap

FIGURES = ("judge", "satisfaction", "procedure", "proactive")


def exam(cell: Path, other: Mapping[str, float], temperature: float, work: Path) -> dict[str, dict[str, float]]:
    """The figures of each user."""
    (home,) = (cell / "exam").iterdir()
    spec: dict[str, Any] = RunFolder.open(home).about["spec"]
    weights = json.loads(Path(spec["policy"]["settings"]["weights"]).read_text("utf-8")) | other
    (work / "weights.json").write_text(json.dumps(weights), "utf-8")
    shutil.copy(cell / "store" / "skills.db", work)
    spec["policy"]["settings"]["weights"] = str(work / "weights.json")
    spec["memories"][0]["settings"]["path"] = str(work / "skills.db")
    spec["sampling"]["temperature"] = temperature
    run = Run.create(parse_spec(spec), Host.load(HostOptions(disabled=("all",))), work / "exam")
    asyncio.run(run.execute())
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for record in run.folder.metrics():
        found[record["user"]].append(record["outcome"])
    return {user: {name: fmean(one[name] for one in some) for name in FIGURES} for user, some in found.items()}


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cell", type=Path, help="Directory of a cell with a memory, of a loop in the world assistant.")
    parser.add_argument("--weights", nargs="+", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rows = list[dict[str, Any]]()
    first: dict[str, dict[str, float]] = {}
    for pairs in ([], *given.weights):
        other = {name: float(value) for name, _, value in (pair.partition("=") for pair in pairs)}
        with tempfile.TemporaryDirectory() as work:
            users = exam(given.cell, other, given.temperature, Path(work))
        first = first or users
        row: dict[str, Any] = {"weights": " ".join(pairs) or "as trained"}
        for name in FIGURES:
            gain = bootstrap([figures[name] - first[user][name] for user, figures in sorted(users.items())])
            row[name] = fmean(figures[name] for figures in users.values())
            row[f"{name}, gain"] = [gain.estimate, gain.low, gain.high]
        rows.append(row)
    if given.json:
        print(json.dumps(rows))
        return rows
    print(
        f"| weights | {' | '.join(f'{name} | gain' for name in FIGURES)} |",
        f"|{' --- |' * (1 + 2 * len(FIGURES))}",
        sep="\n",
    )
    for row in rows:
        cells = [f"{row[name]:.3f} | " + "{:+.3f} [{:+.3f}, {:+.3f}]".format(*row[f"{name}, gain"]) for name in FIGURES]
        print(f"| {row['weights']} | {' | '.join(cells)} |")
    return rows


if __name__ == "__main__":
    main()
