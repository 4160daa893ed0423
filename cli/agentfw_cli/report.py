"""`agentfw report`: a run's pages and pictures, written anew from its records."""

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
    """Write report.html and the pictures of RUN (the last one) anew.

    It works also while the run goes on, and for one that was broken off.
    """
    from agentfw.run_folder import find_run
    from agentfw.run_report import write_report

    out = Out(json=as_json)
    files = [str(file) for file in write_report(find_run(runs_folder(runs), run))]
    if as_json:
        out.data({"files": files})
    else:
        for file in files:
            out.line(file)
