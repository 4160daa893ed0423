"""The kept results: which are older than the code that they measure, and how to make them anew.

    python benchmarks/refresh.py                        # every kept result, and what changed since
    python benchmarks/refresh.py --changed              # only those that are older than the code they measure
    python benchmarks/refresh.py --changed --run        # run these again; `git diff` shows the figures that differ
    python benchmarks/refresh.py quota kitchen --run    # run these two
    python benchmarks/refresh.py quota --new benchmarks/kills.py quota --users 12

A program's result is kept in `results/` beside it, and pages take their figures from there. `--new` runs a program for
the first time, with all options that follow.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from agentfw_benchmarks import tell
from agentfw_benchmarks.kept import Kept, keep, kept_results, measure, place_of


def state_of(name: str, kept: Kept) -> dict[str, Any]:
    return {"name": name, "command": kept.command, "date": kept.date, "commit": kept.commit, "changed": kept.changed()}


def again(name: str, words: list[str]) -> dict[str, Any]:
    """Run a program and keep its result."""
    kept = measure(words)
    keep(place_of(name, words), kept)
    return state_of(name, kept)


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="kept results; default: all")
    parser.add_argument("--changed", action="store_true", help="only results that are older than the code they measure")
    parser.add_argument("--run", action="store_true", help="run the programs again and keep what they print")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--new", nargs=argparse.REMAINDER, metavar="PROGRAM", help="program to run, and its options")
    given = parser.parse_args(arguments)
    known = kept_results()
    if given.new:
        if len(given.names) != 1:
            parser.error("--new keeps one result: give its name before it")
        rows = [again(given.names[0], given.new)]
    else:
        if unknown := [name for name in given.names if name not in known]:
            parser.error(f"no result is kept as {', '.join(unknown)}; known are {', '.join(known)}")
        states = [state_of(name, known[name]) for name in given.names or known]
        rows = [state for state in states if state["changed"] or not given.changed]
        if given.run:
            rows = [again(row["name"], known[row["name"]].words) for row in rows]
    return tell(rows, given.json)


if __name__ == "__main__":
    main()
