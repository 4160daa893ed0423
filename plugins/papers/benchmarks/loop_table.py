"""The table of a loop of the assistant beside the paper's figures and the sketch's, as Markdown.

    agentfw loop assistant --seeds 3 --jobs 2 --folder loops/assistant
    python tests/benchmarks/loop_table.py loops/assistant

The paper's figures are judge scores of a language model on ETAPP (table 2 of parpo-psgm). The sketch is a simulation
with an ideal memory, made before this world was. It measured satisfaction.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PAPER = {
    "A1": -0.0702,
    "A2": -0.0150,
    "B1": -0.0137,
    "B2": -0.0041,
    "B3": -0.0302,
    "B4": -0.0116,
    "C1": -0.0483,
    "C2": -0.0510,
    "C3": -0.0500,
    "C4": -0.0461,
    "C5": -0.0104,
    "C6": -0.0520,
    "C7": -0.0494,
    "parts": 0.0206,
}
SKETCH = {
    "A1": -0.156,
    "A2": -0.100,
    "B1": -0.119,
    "B3": -0.079,
    "C2": 0.0,
    "C3": -0.193,
    "C5": -0.031,
    "C6": 0.004,
    "C7": -0.007,
    "P0": -0.271,
    "P1": -0.196,
    "P3": -0.180,
    "memory_training": 0.074,
    "model_only": 0.150,
}
MUST = {
    **dict.fromkeys(("A1", "A2", "B1", "B3", "C2", "C3", "P0", "P1", "P2", "P3"), -1),
    **dict.fromkeys(("memory_training", "model_only", "live_trained"), 1),
}
"""Lines that must hold, with the sign of the difference in the judge score."""


def lines(result: Mapping[str, Any]) -> list[str]:
    """How each variant differs from the first one. The last column says of what must hold whether it does."""
    found = ["| variant | paper, judge | sketch, satisfaction | judge | satisfaction | p | must hold |"]
    found.append("| --- | --- | --- | --- | --- | --- | --- |")
    for row in [*result["rows"][1:], *result["contrasts"]]:
        name, p_value, differences = row["variant"], row["p_corrected"], row["differences"]
        holds = differences["judge"]["difference"] * MUST.get(name, 0) > 0
        cells = [
            f"{name}: {row['about']}",
            _known(PAPER, name),
            _known(SKETCH, name),
            *(_interval(differences.get(figure)) for figure in ("judge", "satisfaction")),
            "< 0.001" if p_value < 0.001 else f"{p_value:.3f}",
            "" if name not in MUST else "not told from 0" if p_value >= 0.05 else "yes" if holds else "no",
        ]
        found.append(f"| {' | '.join(cells)} |")
    return found


def habits(result: Mapping[str, Any]) -> list[str]:
    """What is the same for everybody, of the variants that differ from the first one in it."""
    found, (first, *others) = ["| variant | procedure | proactive |", "| --- | --- | --- |"], result["rows"]
    for row in (first, *others):
        cells, expected = ([f"{one['means'][name]:.3f}" for name in ("procedure", "proactive")] for one in (row, first))
        if row is first or cells != expected:
            found.append(f"| {row['variant']}: {row['about']} | {' | '.join(cells)} |")
    return found


def days(result: Mapping[str, Any], variants: Sequence[str]) -> list[str]:
    """The judge score of each day of the exam."""
    rows = [row for row in result["rows"] if row["variant"] in variants]
    numbers = sorted(int(name.removeprefix("judge@")) for name in rows[0]["means"] if name.startswith("judge@"))
    found = [f"| day | {' | '.join(map(str, numbers))} |", "| --- |" + " --- |" * len(numbers)]
    for row in rows:
        means = [f"{row['means'][f'judge@{number}']:.3f}" for number in numbers]
        found.append(f"| {row['variant']} | {' | '.join(means)} |")
    return found


def audit(result: Mapping[str, Any], variant: str) -> list[str]:
    found = ["| by | group | users | judge |", "| --- | --- | --- | --- |"]
    for one in result["groups"]:
        if one["variant"] == variant:
            span = f"{one['low']:g}" if one["low"] == one["high"] else f"{one['low']:.3g} to {one['high']:.3g}"
            found.append(f"| {one['figure']} | {span} | {one['users']} | {one['mean']:.3f} |")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="Directory of the loop.")
    options = parser.parse_args(arguments)
    result = json.loads((options.folder / "table.json").read_text("utf-8"))
    first = result["rows"][0]
    means = ", ".join(
        f"{name} {first['means'][name]:.3f}" for name in ("judge", "satisfaction", "procedure", "proactive")
    )
    print(f"{first['variant']}: {means}\n")
    for part in (lines(result), habits(result)):
        print("\n".join(part), end="\n\n")
    print("\n".join(days(result, ("Full", "A1", "A2", "B1", "B3", "S0", "Drift", "Drift_F4"))), end="\n\n")
    print("\n".join(audit(result, first["variant"])))


def _interval(one: Mapping[str, float] | None) -> str:
    if one is None:
        return ""
    return f"{one['difference']:+.3f} [{one['low']:+.3f}, {one['high']:+.3f}]"


def _known(figures: Mapping[str, float], name: str) -> str:
    return f"{figures[name]:+.3f}" if name in figures else ""


if __name__ == "__main__":
    main()
