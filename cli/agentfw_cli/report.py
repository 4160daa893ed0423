"""`agentfw report`: writes the report of a run from its records, or draws one of its episodes.

It only reads the records, so it works while the run goes on.

    agentfw report last
    agentfw report last --episode 00003-0 --picture day.svg
"""

from __future__ import annotations

from pathlib import Path

import click

from agentfw.printing.out import Out
from agentfw_cli.common import json_option, runs_folder, runs_option
from agentfw_cli.completion import RunName

__all__ = ["report"]


@click.command()
@click.argument("run", default="last", type=RunName())
@click.option(
    "--picture",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Only draw the timeline of one episode into this file (.svg).",
)
@click.option("--episode", metavar="ID", help="Episode that --picture draws. Default: the first.")
@runs_option
@json_option
def report(run: str, picture: Path | None, episode: str | None, runs: Path | None, as_json: bool) -> None:
    """Write report.html and curve.svg of RUN. Default: the last run.

    Works also while the run goes on, and for an interrupted run.
    """
    from agentfw.errors import UsageError
    from agentfw.runs.records.folder import find_run
    from agentfw.runs.results.run_charts import write_episode_picture
    from agentfw.runs.results.run_report import write_report

    out = Out(json=as_json)
    folder = find_run(runs_folder(runs), run)
    if episode is not None and picture is None:
        raise UsageError("--episode needs a file to draw the episode into", fix="add --picture FILE")
    with out.progress("writing the report"):
        written = [write_episode_picture(folder, picture, episode)] if picture is not None else write_report(folder)
    files = [str(file) for file in written]
    if as_json:
        out.data({"run": folder.id, "state": folder.state, "files": files})
    else:
        for file in files:
            out.line(file)
