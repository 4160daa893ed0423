"""The proactive metrics: how closely they reproduce the paper's tables, and how long they take.

    python plugins/papers/benchmarks/proactive_metrics.py
    python plugins/papers/benchmarks/proactive_metrics.py --turns 1000 --repeats 2 --json

The first part recomputes the Proactiveness Ranking Index of the paper's table 5 from its other columns. Required: every
row to four decimals. The second part scores random predictions, five a turn with two inputs each, against references of
the same size; required: under one second for 10,000 turns. The third part loads the public ABCD ontology as a catalog;
required: under half a second. Seconds are CPU seconds of one core.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import random
import time
from collections.abc import Sequence
from typing import Any

from agentfw_benchmarks import ROOT, Options, spread, tell, timed
from agentfw_papers.timing import (
    STATUSES,
    Annotation,
    Figures,
    Input,
    Opportunity,
    TurnOpportunities,
    load_domain,
    rank,
    score,
)

TABLES = ROOT / "plugins/papers/tests/data/proactor_tables.json"
ABCD = ROOT / "plugins/papers/agentfw_papers/worlds/proactive/domains/abcd/domain.yaml"
METRICS = ("ac", "max_ac", "difference", "pt", "ftr", "rar")
LENGTH, EACH = 20, 5


def ranked() -> list[dict[str, Any]]:
    """The printed and the recomputed index of every row of table 5, best first."""
    rows = []
    for group, members in json.loads(TABLES.read_text("utf-8"))["table_5"].items():
        printed = {row["name"]: row["pri"] for row in members}
        ranking = rank({row["name"]: Figures(**{metric: row[metric] for metric in METRICS}) for row in members})
        rows += [
            {"group": group, "name": row.name, "printed": printed[row.name], "recomputed": row.pri}
            for row in ranking.rows
        ]
    return rows


def made(turns: int, seed: int) -> tuple[list[TurnOpportunities], list[Annotation]]:
    """Random predictions and references."""
    chance = random.Random(seed)

    def opportunities() -> tuple[Opportunity, ...]:
        return tuple(
            Opportunity(
                f"action-{chance.randrange(30)}",
                chance.choice(STATUSES),
                (Input("order", True, f"Order {chance.randrange(99)}"),),
                (Input("phone", True, f"+1 {chance.randrange(999)}"),),
            )
            for _ in range(EACH)
        )

    predictions, annotations = [], []
    for dialogue in range(-(-turns // LENGTH)):
        predicted, expected = (
            [TurnOpportunities(str(dialogue), turn, opportunities()) for turn in range(1, LENGTH + 1)] for _ in range(2)
        )
        predictions += predicted
        annotations.append(Annotation(str(dialogue), LENGTH, tuple(expected)))
    return predictions[:turns], annotations


def scoring(turns: int, repeats: int, seed: int) -> dict[str, Any]:
    """CPU seconds of scoring, summary and intervals included."""
    drawn = (made(turns, seed + repeat) for repeat in range(repeats))
    return {
        "turns": turns,
        "repeats": repeats,
        **spread([timed(score, *one, clock=time.process_time) for one in drawn]),
    }


def loading(repeats: int) -> dict[str, Any]:
    """What is in the public catalog, and the CPU seconds of loading it. The first time imports pydantic and yaml."""
    seconds = [timed(load_domain, ABCD, clock=time.process_time) for _ in range(repeats)]
    catalog = load_domain(ABCD).catalog
    return {
        "actions": len(catalog.actions),
        "workflows": len(catalog.workflows),
        "slots": len(catalog.parameters),
        "actions without parameters": sum(not action.parameters for action in catalog.actions),
        **spread(seconds),
    }


def show(result: dict[str, Any]) -> None:
    print(f"{'group':<11}{'system':<44}{'printed':>9}{'recomputed':>12}")
    for row in result["rows"]:
        print(f"{row['group']:<11}{row['name']:<44}{row['printed']:>9.4f}{row['recomputed']:>12.4f}")
    print(f"largest error {result['largest error']:.1e}")
    catalog, scored = result["catalog"], result["scoring"]
    for what, facts in (
        (f"{scored['turns']:,} turns of {EACH} predictions", scored),
        (f"a catalog of {catalog['actions']} actions and {catalog['workflows']} workflows", catalog),
    ):
        low, median, high = (facts[name] for name in ("min", "median", "max"))
        print(f"{what}: {median:.3f} CPU seconds (median of {scored['repeats']}; {low:.3f} to {high:.3f})")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, turns=10_000, repeats=7, seed=7).parse_args(arguments)
    rows = ranked()
    error = max(abs(row["recomputed"] - row["printed"]) for row in rows)
    times, catalog = scoring(options.turns, options.repeats, options.seed), loading(options.repeats)
    return tell({"rows": rows, "largest error": error, "scoring": times, "catalog": catalog}, options.json, show)


if __name__ == "__main__":
    main()
