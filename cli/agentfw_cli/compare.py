"""`agentfw compare`: runs side by side, each figure with its interval, and the difference episode by episode."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw_cli.common import host_options, json_option, load_host, runs_folder, runs_option
from agentfw_cli.out import Out

if TYPE_CHECKING:
    from agentfw.host import Host
    from agentfw.run_folder import RunFolder

__all__ = ["compare"]


@click.command()
@click.argument("which", metavar="RUN|SPEC...", nargs=-1, required=True)
@click.option("--figure", "figures", multiple=True, metavar="NAME", help="Only this figure; may be repeated.")
@runs_option
@host_options
@json_option
def compare(
    which: tuple[str, ...], figures: tuple[str, ...], runs: Path | None, blocked: tuple[str, ...], strict: bool, as_json: bool
) -> None:
    """Put runs side by side; a SPEC (a .toml file) is run first.

    Each figure comes with its bootstrap 95% interval. The difference to the first run is taken episode by episode where both
    have played the same tasks; a p-value says how surprising it would be if there were none.
    """
    from agentfw.comparison import compare_runs

    out = Out(json=as_json)
    root = runs_folder(runs)
    folders = [_folder(name, root, out, blocked, strict) for name in which]
    table = compare_runs(folders, figures)
    if as_json:
        out.data([row.to_record() for row in table])
        return
    rows = []
    for row in table:
        for place, name in enumerate(row.runs):
            difference = row.differences[place]
            rows.append(
                [row.figure if place == 0 else "", name, str(row.intervals[place]), "" if difference is None else str(difference)]
            )
    out.table(["figure", "run", "mean ± 95%", "difference to the first"], rows)
    for folder in folders:
        if folder.state != "done":
            out.note(f"{folder.id} is {folder.state}; what is there of it was compared")


def _folder(name: str, root: Path, out: Out, blocked: tuple[str, ...], strict: bool) -> RunFolder:
    from agentfw.run_folder import find_run

    if not name.endswith(".toml"):
        return find_run(root, name)
    from agentfw.run import Run
    from agentfw.runspec import parse_spec, read_spec
    from agentfw_cli.live import watch

    host: Host = load_host(out, blocked, strict)
    values: dict[str, Any] = read_spec(Path(name))
    made = Run.create(parse_spec(values, name), host, root)
    with watch(made, out) as watcher:
        asyncio.run(made.execute(watcher))
    return made.folder
