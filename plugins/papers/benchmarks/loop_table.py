"""The table of a loop of the assistant beside the paper's figures and the sketch's, as Markdown.

    agentfw loop assistant --seeds 3 --jobs 2 --folder loops/assistant
    python plugins/papers/benchmarks/loop_table.py loops/assistant

The paper's figures are judge scores of a language model on ETAPP (table 2 of parpo-psgm). The sketch is a simulation
with an ideal memory, made before this world was. It measured satisfaction.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import print_markdown, shown

KNOWN: dict[str, tuple[float | None, float | None]] = {
    "A1": (-0.0702, -0.156),
    "A2": (-0.0150, -0.100),
    "B1": (-0.0137, -0.119),
    "B2": (-0.0041, None),
    "B3": (-0.0302, -0.079),
    "B4": (-0.0116, None),
    "C1": (-0.0483, None),
    "C2": (-0.0510, 0.0),
    "C3": (-0.0500, -0.193),
    "C4": (-0.0461, None),
    "C5": (-0.0104, -0.031),
    "C6": (-0.0520, 0.004),
    "C7": (-0.0494, -0.007),
    "P0": (None, -0.271),
    "P1": (None, -0.196),
    "P3": (None, -0.180),
    "parts": (0.0206, None),
    "memory_training": (None, 0.074),
    "model_only": (None, 0.150),
}
"""How much less or more a variant has than the first one: in the paper, and in the sketch."""
MUST = {
    **dict.fromkeys(("A1", "A2", "B1", "B3", "C2", "C3", "P0", "P1", "P2", "P3"), -1),
    **dict.fromkeys(("memory_training", "model_only", "live_trained"), 1),
}
"""Lines that must hold, with the sign of the difference in the judge score."""


Table = tuple[list[str], list[list[object]]]
"""The heads of a table, and its rows."""


def differences(result: Mapping[str, Any]) -> Table:
    """How each variant differs from the first one. The last column says of what must hold whether it does."""
    rows: list[list[object]] = []
    for row in [*result["rows"][1:], *result["contrasts"]]:
        name, p_value, found = row["variant"], row["p_corrected"], row["differences"]
        holds = found["judge"]["difference"] * MUST.get(name, 0) > 0
        known = ["" if value is None else f"{value:+.3f}" for value in KNOWN.get(name, (None, None))]
        ours = [_interval(found.get(figure)) for figure in ("judge", "satisfaction")]
        p_words = "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
        must = "" if name not in MUST else "not told from 0" if p_value >= 0.05 else "yes" if holds else "no"
        rows.append([f"{name}: {row['about']}", *known, *ours, p_words, must])
    return ["variant", "paper, judge", "sketch, satisfaction", "judge", "satisfaction", "p", "must hold"], rows


def habits(result: Mapping[str, Any]) -> Table:
    """What is the same for everybody, of the variants that differ from the first one in it."""
    rows: list[list[object]] = []
    for row in result["rows"]:
        cells = [f"{row['means'][name]:.3f}" for name in ("procedure", "proactive")]
        if not rows or cells != rows[0][1:]:
            rows.append([f"{row['variant']}: {row['about']}", *cells])
    return ["variant", "procedure", "proactive"], rows


def days(result: Mapping[str, Any], variants: Sequence[str]) -> Table:
    """The judge score of each day of the exam."""
    rows = [row for row in result["rows"] if row["variant"] in variants]
    numbers = sorted(int(name.removeprefix("judge@")) for name in rows[0]["means"] if name.startswith("judge@"))
    means = [[row["variant"], *(f"{row['means'][f'judge@{number}']:.3f}" for number in numbers)] for row in rows]
    return ["day", *map(str, numbers)], means


def audit(result: Mapping[str, Any], variant: str) -> Table:
    rows: list[list[object]] = []
    for one in result["groups"]:
        if one["variant"] == variant:
            span = f"{one['low']:g}" if one["low"] == one["high"] else f"{one['low']:.3g} to {one['high']:.3g}"
            rows.append([one["figure"], span, one["users"], f"{one['mean']:.3f}"])
    return ["by", "group", "users", "judge"], rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="directory of the loop")
    options = parser.parse_args(arguments)
    result = json.loads((options.folder / "table.json").read_text("utf-8"))
    first = result["rows"][0]
    means = ", ".join(
        f"{name} {first['means'][name]:.3f}" for name in ("judge", "satisfaction", "procedure", "proactive")
    )
    print(f"{first['variant']}: {means}")
    shown_days = days(result, ("Full", "A1", "A2", "B1", "B3", "S0", "Drift", "Drift_F4"))
    for table in (differences(result), habits(result), shown_days, audit(result, first["variant"])):
        print()
        print_markdown(*table)


def _interval(one: Mapping[str, float] | None) -> str:
    return "" if one is None else shown([one[name] for name in ("difference", "low", "high")], "+.3f")


if __name__ == "__main__":
    main()
