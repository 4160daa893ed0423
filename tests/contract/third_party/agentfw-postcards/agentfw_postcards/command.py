"""`agentfw postcards RUNS`: prints the cards in all folders of these runs, one a line."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("runs", type=click.Path(path_type=Path, exists=True, file_okay=False), default="runs")
def postcards(runs: Path) -> None:
    """Show all postcards of some runs."""
    for file in sorted(runs.glob("*/postcards/*/*.json")):
        click.echo(file.read_text("utf-8"))
