"""The kept results: which are older than the code that they measure, and what they are when their programs run again.

    python benchmarks/refresh.py                        # every kept result, and what changed since
    python benchmarks/refresh.py --changed              # only those that are older than the code they measure
    python benchmarks/refresh.py --changed --run        # run these again, and say which figures differ
    python benchmarks/refresh.py quota kitchen --run    # run these two
    python benchmarks/refresh.py quota --new benchmarks/quota.py --users 12
    python benchmarks/refresh.py --draw 40 --seed 7     # figures of the pages at random: do they come out again?

A program's result is kept in `results/` beside it, and pages take their figures from there. `--new` runs a program for
the first time, with all options that follow. With `--draw` nothing is written: the programs of the drawn figures run
again, and a figure holds where it comes out as on the page or within its interval.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agentfw_benchmarks.kept import Kept, keep, kept_results, measure, place_of
from agentfw_benchmarks.numbers import Number, differences
from agentfw_benchmarks.page_figures import PageFigure, origins, page_figures

Numbers = Mapping[str, Number]


def state_of(name: str, kept: Kept) -> dict[str, Any]:
    return {"name": name, "command": kept.command, "date": kept.date, "commit": kept.commit, "changed": kept.changed()}


def again(name: str, words: list[str], before: Kept | None) -> dict[str, Any]:
    """Run a program and keep its result. Says what differs from the result before."""
    kept = measure(words)
    found = [] if before is None else [asdict(one) for one in differences(before.result, kept.result)]
    keep(place_of(name, words), kept)
    return {"name": name, "command": kept.command, "seconds": kept.seconds, "load": kept.load, "differences": found}


def drawn(count: int, seed: int, names: Sequence[str]) -> list[dict[str, Any]]:
    """Figures of the pages at random, and whether they come out again."""
    known = kept_results()
    every = [figure for figure in page_figures() if not names or set(figure.names) & set(names)]
    before = {name: kept.numbers for name, kept in known.items()}
    places = origins(every, before)
    chosen = random.Random(seed).sample(every, min(count, len(every)))
    now = {}
    for name in sorted({name for figure in chosen for name in figure.names}):
        print(f"running {known[name].command}", file=sys.stderr)
        now[name] = measure(known[name].words).numbers
    return [
        {
            "page": figure.page,
            "line": figure.line,
            "figure": figure.text,
            "of": figure.names,
            "holds": any(comes_out(figure, before[name], now[name], places[name][figure]) for name in figure.names),
        }
        for figure in chosen
    ]


def comes_out(figure: PageFigure, before: Numbers, now: Numbers, places: Sequence[str]) -> bool:
    """Whether a figure has the same text again, or its estimate is within the interval that it had."""
    for place in places:
        judge = before[place].judge
        if place in now and any(figure.shown_for([now[place].value])):
            return True
        if judge in now and before[judge].holds(now[judge].value):
            return True
    return False


def show_states(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        changed = f"older than {', '.join(row['changed'])}" if row["changed"] else "of this code"
        print(f"{row['name']:<28} {row['date']} {row['commit']:<16} {changed}")


def show_run(row: dict[str, Any]) -> None:
    moved = [one for one in row["differences"] if not one["within"]]
    print(
        f"{row['name']}: {row['seconds']} s, {len(moved)} figures differ, {len(row['differences']) - len(moved)} within"
    )
    for one in moved:
        print(f"  {one['figure']}: {one['before']} before, {one['now']} now")


def show_drawn(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        print(f"{'holds ' if row['holds'] else 'DIFFERS'} {row['figure']:>10}  {row['page']}:{row['line']}")
    print(f"{sum(row['holds'] for row in rows)} of {len(rows)} figures hold")


def main(arguments: Sequence[str] | None = None) -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="kept results; default: all")
    parser.add_argument("--changed", action="store_true", help="only results that are older than the code they measure")
    parser.add_argument("--run", action="store_true", help="run the programs again and keep what they print")
    parser.add_argument("--draw", type=int, metavar="COUNT", help="figures of the pages to draw and run again")
    parser.add_argument("--seed", type=int, default=1, help="random seed of --draw")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--new", nargs=argparse.REMAINDER, metavar="PROGRAM", help="program to run, and its options")
    given = parser.parse_args(arguments)
    known = kept_results()
    if given.new:
        if len(given.names) != 1:
            parser.error("--new keeps one result: give its name before it")
        found: Any = [again(given.names[0], given.new, known.get(given.names[0]))]
        given.json or show_run(found[0])
    elif unknown := [name for name in given.names if name not in known]:
        parser.error(f"no result is kept as {', '.join(unknown)}; known are {', '.join(known)}")
    elif given.draw:
        found = drawn(given.draw, given.seed, given.names)
        given.json or show_drawn(found)
    else:
        states = [state_of(name, known[name]) for name in given.names or known]
        found = [state for state in states if state["changed"] or not given.changed]
        if given.run:
            found = [_run(state["name"], known, quiet=given.json) for state in found]
        elif not given.json:
            show_states(found)
    if given.json:
        print(json.dumps(found, indent=2))
    return found


def _run(name: str, known: dict[str, Kept], *, quiet: bool) -> dict[str, Any]:
    row = again(name, known[name].words, known[name])
    quiet or show_run(row)
    return row


if __name__ == "__main__":
    main()
