"""`agentfw report`: a run's page and picture, written anew from its records; or one episode as a picture.

The one rule: it only reads the records, so it may be called while the run goes on.

    agentfw report last
    agentfw report last --episode 00003-0 --picture day.svg
"""

from __future__ import annotations

from pathlib import Path

import click

from agentfw.out import Out
from agentfw_cli.common import json_option, runs_folder, runs_option

__all__ = ["report"]


@click.command()
@click.argument("run", default="last")
@click.option(
    "--picture",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the timeline of one episode into this file (.png or .svg), and nothing else.",
)
@click.option("--episode", metavar="ID", help="Which episode --picture draws; the first where not set.")
@runs_option
@json_option
def report(run: str, picture: Path | None, episode: str | None, runs: Path | None, as_json: bool) -> None:
    """Write report.html and the picture of RUN (the last one) anew.

    It works also while the run goes on, and for one that was broken off.
    """
    from agentfw.errors import UsageError
    from agentfw.runs.folder import find_run
    from agentfw.runs.report import write_episode_picture, write_report

    out = Out(json=as_json)
    folder = find_run(runs_folder(runs), run)
    if episode is not None and picture is None:
        raise UsageError(
            "--episode says which episode to draw, and there is no file to draw it into", fix="add --picture FILE"
        )
    written = [write_episode_picture(folder, picture, episode)] if picture is not None else write_report(folder)
    files = [str(file) for file in written]
    if as_json:
        out.data({"run": folder.id, "state": folder.state, "files": files})
    else:
        for file in files:
            out.line(file)
