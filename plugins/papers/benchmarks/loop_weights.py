"""The exam of a loop's cell again, with other weights of the policy `assistant-linear`.

    python plugins/papers/benchmarks/loop_weights.py loops/assistant/cells/Full-1 --weights shared=5 fame=1

The memory, the users and their requests are those of the cell, so the difference is what the policy could gain, were
it trained to these weights. The first row plays the exam as it was. `--temperature 1` shows how sure the policy is: at
temperature 0 the least preference decides.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from agentfw import Host
from agentfw.runs import RunFolder
from agentfw_benchmarks import Options, played, print_markdown, shown, tell, triple_of

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
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    for record in played(spec, Host.load(), work / "exam").metrics():
        found[record["user"]].append(record["outcome"])
    return {user: {name: fmean(one[name] for one in some) for name in FIGURES} for user, some in found.items()}


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    parser = Options(__doc__, temperature=0.0)
    parser.add_argument("cell", type=Path, help="directory of a cell with a memory, of a loop in the world assistant")
    parser.add_argument("--weights", nargs="+", action="append", default=[], metavar="NAME=VALUE")
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
            row[name] = fmean(figures[name] for figures in users.values())
            gains = [figures[name] - first[user][name] for user, figures in sorted(users.items())]
            row[f"{name}, gain"] = triple_of(gains)
        rows.append(row)
    return tell(rows, given.json, show)


def show(rows: list[dict[str, Any]]) -> None:
    table = []
    for row in rows:
        cells = [(f"{row[name]:.3f}", shown(row[f"{name}, gain"], "+.3f")) for name in FIGURES]
        table.append([row["weights"], *(cell for pair in cells for cell in pair)])
    print_markdown(["weights", *(head for name in FIGURES for head in (name, "gain"))], table)


if __name__ == "__main__":
    main()
