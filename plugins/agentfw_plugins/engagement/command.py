"""`agentfw engagement`: what explicit time changes, as experiments that train a table and compare it.

The one rule: this module is imported for `agentfw engagement --help`, so everything heavy is imported by the command
that needs it.

    agentfw engagement deliberation --setting chain --out tables
    agentfw run deliberation --policy qtable --set policy.table=tables/deliberation-chain-event.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agentfw.report import Canvas
    from agentfw.statistics import Interval

    from ..policies.value_table import Table

__all__ = ["engagement"]

_out = click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="A folder for the tables and the picture."
)
_seed = click.option(
    "--seed", type=click.IntRange(0), default=42, show_default=True, help="Where every choice comes from."
)
_jobs = click.option(
    "--jobs", type=click.IntRange(1), help="How many processes; as many as there are cores where not set."
)
_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, and nothing else.")


@click.group()
def engagement() -> None:
    """Train tables on the timeline and see what explicit time changes."""


@engagement.command()
@click.option("--setting", type=click.Choice(["single", "chain"]), default="single", show_default=True)
@click.option("--training", type=click.IntRange(1), default=20_000, show_default=True, help="Episodes to learn from.")
@click.option("--episodes", type=click.IntRange(1), default=3000, show_default=True, help="Episodes to measure on.")
@_seed
@_jobs
@_out
@_json
def deliberation(
    setting: str, training: int, episodes: int, seed: int, jobs: int | None, out: Path | None, as_json: bool
) -> None:
    """Learn how long to think, with a clock and without, and play both in both worlds."""
    from .deliberation_table import FIGURES, measure_deliberation

    found = measure_deliberation(setting, training=training, episodes=episodes, seed=seed, processes=jobs)
    tables = {f"deliberation-{setting}-{world}": table for world, table in found.tables.items()}
    files = _write(out, tables, f"deliberation-{setting}", found.picture()) if out else []
    rows = [({"trained": row.trained, "played": row.played}, row.figures) for row in found.rows]
    about = {"setting": setting, "training": training, "episodes": episodes, "seed": seed}
    _tell(about, rows, FIGURES, files, as_json)


@engagement.command()
@click.option(
    "--depth", type=click.IntRange(1, 3), default=1, show_default=True, help="Phases of handling a checkpoint."
)
@click.option("--training", type=click.IntRange(1), default=4000, show_default=True, help="Episodes to learn from.")
@click.option("--episodes", type=click.IntRange(1), default=1000, show_default=True, help="Episodes to measure on.")
@_seed
@_jobs
@_out
@_json
def patrol(
    depth: int, training: int, episodes: int, seed: int, jobs: int | None, out: Path | None, as_json: bool
) -> None:
    """Learn when to leave what one is doing for an alarm, beside loops and hand-written rules."""
    from .patrol_table import measure_patrol

    found = measure_patrol(depth, training=training, episodes=episodes, seed=seed, processes=jobs)
    files = _write(out, {f"patrol-{depth}": found.table}, f"patrol-{depth}", found.picture()) if out else []
    rows = [({"controller": row.controller}, row.figures) for row in found.rows]
    about = {"depth": depth, "training": training, "episodes": episodes, "seed": seed}
    _tell(about, rows, tuple(found.rows[0].figures), files, as_json)


def _write(out: Path, tables: Mapping[str, Table], name: str, picture: Canvas) -> list[Path]:
    from agentfw.errors import StorageError
    from agentfw.runs.journal import write_whole

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"can't make {out}: {error.strerror}", fix="give another --out") from None
    for title, table in tables.items():
        table.save(out / f"{title}.json")
    write_whole(out / f"{name}.png", picture.to_png())
    write_whole(out / f"{name}.svg", picture.to_svg())
    return [*(out / f"{title}.json" for title in tables), out / f"{name}.png", out / f"{name}.svg"]


def _tell(
    about: Mapping[str, Any],
    rows: Sequence[tuple[Mapping[str, str], Mapping[str, Interval]]],
    figures: Sequence[str],
    files: Sequence[Path],
    as_json: bool,
) -> None:
    if as_json:
        record = {**about, "rows": [{**names, **_bounds(measured)} for names, measured in rows]}
        click.echo(json.dumps({**record, "files": [str(file) for file in files]}, indent=2))
        return
    columns = [*rows[0][0], *figures]
    cells = [[*names.values(), *(str(measured[name]) for name in figures)] for names, measured in rows]
    widths = [max(len(row[place]) for row in [columns, *cells]) for place in range(len(columns))]
    for row in [columns, *cells]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for file in files:
        click.echo(str(file))


def _bounds(figures: Mapping[str, Interval]) -> dict[str, Any]:
    return {name: {"mean": one.estimate, "low": one.low, "high": one.high} for name, one in figures.items()}
