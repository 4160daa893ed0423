"""`agentfw proactive view`: a page to inspect predictions turn by turn."""

from __future__ import annotations

from pathlib import Path

import click

from agentfw.out import Out
from agentfw_plugins.command_options import json_option

__all__ = ["view"]


@click.command()
@click.argument("run", default="last")
@click.option("--episode", default="", help="Dialogue or episode to open first.")
@click.option(
    "--most", type=click.IntRange(min=1), default=60, show_default=True, help="Maximum number of dialogues to open."
)
@click.option("--beside", multiple=True, metavar="RUN", help="Also rank this run. Can be repeated.")
@click.option(
    "--out",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    default="view.html",
    show_default=True,
    help="Output file.",
)
@json_option
def view(run: str, episode: str, most: int, beside: tuple[str, ...], file: Path, out: Out) -> None:
    """Write a page that shows the predictions of a run, as a grid of actions and turns.

    RUN is the id or the directory of a run or a training. Default: the last one. The page is one file that needs no
    network.
    """
    from agentfw import Host
    from agentfw.host import find_project
    from agentfw.runs import find_run

    from .view import view_page

    project = find_project()
    root = project.runs if project is not None else Path("runs")
    others = [find_run(root, one).path for one in beside]
    page = view_page(find_run(root, run), Host.load(), episode=episode, most=most, beside=others)
    data = page.encode("utf-8", "replace")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    if out.json:
        out.data({"file": str(file), "bytes": len(data)})
    else:
        out.line(f"{file}   {len(data) / 1e6:.1f} MB")
