"""What was spent: `agentfw serve usage`, `GET /usage`, and the figures of tokens and money in `/metrics`.

All three read the ledger (`hooks/ledger.py`), to which the hook `budget` of every gateway writes. A key of a user is
told what was spent with it, and a request that names a user what theirs was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.printing.out import Out, counted

from ..command_options import gateway_options
from ..hooks.ledger import FILE, GROUPS, Ledger, Row

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from agentfw.runs import LiveRun

_BAR = 12  # characters of the longest bar


@click.command()
@click.option("--by", type=click.Choice(GROUPS), default="model", show_default=True, help="What the rows are.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), metavar="DAY", help="First day (UTC). Default: all days.")
@click.option("--user", help="Only what this user spent.")
@click.option("--key", help="Only what was spent with this key.")
@gateway_options("What the gateways spent that share these sessions.")
def usage(
    by: str, since: datetime | None, user: str | None, key: str | None, runs: Path, shared: str, out: Out
) -> None:
    """Show how many tokens answers took, and what they cost.

    They are counted as the provider counts them. The prices are those of the policy, or else those of the list in the
    package genai-prices (in US dollars).
    """
    day = since.date().isoformat() if since else ""
    rows = Ledger(shared or runs / FILE).report(by, since=day, user=user, key=key)
    if out.json:
        out.data(told(by, day, rows))
        return
    if not rows:
        out.line("Nothing was spent." if not day else f"Nothing was spent since {day}.")
        return
    whole = total(rows)
    biggest, digits = max((row.money for row in rows), default=0.0), 2 if whole.money >= 100 else 4

    def cells(row: Row, bar: str) -> list[str]:
        numbers = (row.requests, row.prompt, row.cached, row.sampled)
        money = "?" if row.unpriced == row.requests else f"{row.money:,.{digits}f}"
        return [row.name or "-", *(f"{number:,}" for number in numbers), money, bar]

    lines = [cells(row, "█" * round(_BAR * row.money / (biggest or 1.0))) for row in rows]
    columns = [by, "answers", "prompt", "cached", "generated", "cost", ""]
    out.table(columns, [*lines, cells(whole, "")], right=(1, 2, 3, 4, 5))
    if whole.estimated:
        answers = counted(whole.estimated, "answer")
        out.note(f"{answers} not counted by the provider, or broken off: estimated by length")
    if whole.unpriced:
        fix = "--set 'policy.prices.\"MODEL\".prompt=1.25' and .sampled, per million tokens"
        out.note(f"{counted(whole.unpriced, 'answer')} of a model without a known price, in no sum: {fix}")


def ledger_of(live: LiveRun) -> Ledger:
    choice = next((one for one in live.assembly.spec.hooks if one.name == "budget"), None)
    return Ledger(getattr(choice and choice.checked, "ledger", "") or live.folder.path.parent / FILE)


def total(rows: Sequence[Row]) -> Row:
    figures = [sum(column) for column in list(zip(*rows, strict=True))[1:]] or [0] * (len(Row._fields) - 1)
    return Row("total", *figures)


def told(by: str, since: str, rows: Sequence[Row]) -> dict[str, Any]:
    shown = [{**row._asdict(), "tokens": row.tokens} for row in (*rows, total(rows))]
    return {"by": by, "since": since or None, "rows": shown[:-1], "total": shown[-1]}


@dataclass(frozen=True)
class SpentFigures:
    """What the ledger has, as figures by model for Prometheus. No figure names a user, a key or a session."""

    ledger: Ledger

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily

        rows = self.ledger.report("model")
        cost = CounterMetricFamily("agentfw_cost", "What answers cost, as far as prices are known", labels=["model"])
        tokens = CounterMetricFamily("agentfw_model_tokens", "Tokens of answers", labels=["model", "kind"])
        for row in rows:
            cost.add_metric([row.name], row.money)
            for kind in ("prompt", "cached", "written", "sampled"):
                tokens.add_metric([row.name, kind], getattr(row, kind))
        yield from (cost, tokens)
