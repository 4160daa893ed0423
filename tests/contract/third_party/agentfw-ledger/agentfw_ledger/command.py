"""`agentfw ledger`: prints the results that the tracker has kept, one JSON object a line."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False), default="ledger.jsonl")
def ledger(path: Path) -> None:
    """Show the results of all runs in a ledger."""
    click.echo(path.read_text("utf-8"), nl=False)
