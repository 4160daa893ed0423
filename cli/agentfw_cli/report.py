"""`agentfw report`: a run's page and picture, written anew from its records.

The one rule: it only reads the records, so it may be called while the run goes on.

    agentfw report last
"""

from __future__ import annotations

from pathlib import Path

import click

from agentfw_cli.common import json_option, runs_folder, runs_option
from agentfw_cli.out import Out

__all__ = ["report"]


@click.command()
@click.argument("run", default="last")
@runs_option
@json_option
def report(run: str, runs: Path | None, as_json: bool) -> None:
    """Write report.html and the picture of RUN (the last one) anew.

    It works also while the run goes on, and for one that was broken off.
    """
    from agentfw.runs.folder import find_run
    from agentfw.runs.report import write_report

    out = Out(json=as_json)
    folder = find_run(runs_folder(runs), run)
    files = [str(file) for file in write_report(folder)]
    if as_json:
        out.data({"run": folder.id, "state": folder.state, "files": files})
    else:
        for file in files:
            out.line(file)
