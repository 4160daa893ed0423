"""Tutoring with cooking, one rule under each interface, with one dish and with several; for docs/results/kitchen.md.

    python tests/benchmarks/kitchen_table.py
    python tests/benchmarks/kitchen_table.py --variant multi --pictures docs/pictures --json

The paper's text has kept the order of its figures and lost the figures; the order stands below each table.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw.statistics import Interval
from agentfw_plugins.worlds.kitchen.table import KitchenTable, measure_kitchen

STRUCTURES = {"one": 40, "multi": 12}
"""Kitchens a cell: 16 cells with one dish, 54 with several."""
COLUMNS = {
    "one": ("utility", "difference", "charged", "dishes", "seen", "delay", "switches"),
    "multi": ("utility", "difference", "charged", "critical", "soft", "problems", "seen", "delay", "switches"),
}
BY_FAMILY = {"one": ("utility", "difference", "dishes"), "multi": ("utility", "difference", "critical", "soft")}
CONTINUITY = ("stretches", "interrupted", "resumed", "restarted")
DECIMALS = {"seen": 1, "delay": 1, "problems": 2, "switches": 2, "stretches": 2, "interrupted": 2, "resumed": 2}
PAPER = {
    "one": "utility: event-driven > reflex and polling, by little; the step loop far below",
    "multi": "utility and critical dishes: event-driven > reflex, by little > polling > the step loop; "
    "soft dishes fare well under polling",
}


def measure(
    variants: Sequence[str], structures: int | None, seed: int, jobs: int | None, pictures: Path | None
) -> dict[str, Any]:
    tables = []
    began, worked = time.perf_counter(), _worked()
    for variant in variants:
        table = measure_kitchen(variant, structures=structures or STRUCTURES[variant], seed=seed, processes=jobs)
        tables.append({"variant": variant, "kitchens": table.kitchens, "rows": _rows(table)})
        if pictures is not None:
            (pictures / f"kitchen-{variant}.svg").write_text(table.picture().to_svg(), "utf-8")
    took = {"seconds": round(time.perf_counter() - began, 1), "cpu_seconds": round(_worked() - worked, 1)}
    return {"seed": seed, **took, "tables": tables}


def _rows(table: KitchenTable) -> list[dict[str, Any]]:
    rows = []
    for row in table.rows:
        found: dict[str, Any] = {name: _bounds(one) for name, one in row.figures.items()}
        if row.difference is not None:
            found["difference"] = {**_bounds(row.difference.difference), "p": row.difference.p_value}
        rows.append({"family": row.family, "player": row.player, **found})
    return rows


def _bounds(one: Interval) -> dict[str, float]:
    return {"mean": one.estimate, "low": one.low, "high": one.high}


def _worked() -> float:
    """Seconds of CPU time, of this process and of its workers that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--variant", choices=("one", "multi"), action="append")
    parser.add_argument("--structures", type=int, help="kitchens a cell; 40 with one dish and 12 with several")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--pictures", type=Path, help="a folder for the pictures")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    variants = options.variant or ["one", "multi"]
    result = measure(variants, options.structures, options.seed, options.jobs, options.pictures)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        _tell(result)
    return result


def _tell(result: dict[str, Any]) -> None:
    print(
        f"seed {result['seed']}; means and 95% intervals; difference: in utility, to event_driven in the same "
        f"kitchens; {result['seconds']:.0f} s, {result['cpu_seconds']:.0f} s of CPU time"
    )
    for table in result["tables"]:
        variant = table["variant"]
        whole = [row for row in table["rows"] if not row["family"]]
        families = [row for row in table["rows"] if row["family"]]
        print(f"\n{variant}: {table['kitchens']} kitchens")
        _print(whole, COLUMNS[variant])
        print(f"(the paper's order: {PAPER[variant]})\n")
        _print(families, BY_FAMILY[variant], "family")
        print()
        _print(whole, CONTINUITY)


def _print(rows: Sequence[dict[str, Any]], figures: Sequence[str], *first: str) -> None:
    print("| " + " | ".join([*first, "interface", *figures]) + " |")
    print("|" + " --- |" * (len(first) + 1 + len(figures)))
    for row in rows:
        cells = [_cell(name, row[name]) if name in row else "" for name in figures]
        print("| " + " | ".join([*(row[name] for name in first), row["player"], *cells]) + " |")


def _cell(name: str, figure: dict[str, float]) -> str:
    shape = f".{DECIMALS.get(name, 3)}f"
    return f"{figure['mean']:{shape}} [{figure['low']:{shape}}, {figure['high']:{shape}}]"


if __name__ == "__main__":
    main()
