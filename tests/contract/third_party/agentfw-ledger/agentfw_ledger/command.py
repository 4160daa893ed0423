"""`agentfw ledger`: shows the results that the tracker has kept."""

from __future__ import annotations

from pathlib import Path

import click
from agentfw.out import Out

from agentfw_ledger.tracker import results


@click.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False), default="ledger.db")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else.")
def ledger(path: Path, as_json: bool) -> None:
    """Show the results of all runs in a ledger."""
    out = Out(json=as_json)
    found = results(path)
    if as_json:
        out.data([{"run": run, "metric": metric, "value": value} for run, metric, value in found])
    else:
        out.table(["run", "metric", "value"], [[run, metric, f"{value:.3g}"] for run, metric, value in found])
