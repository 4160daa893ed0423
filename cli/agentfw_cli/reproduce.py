"""`agentfw reproduce`: play a run again, here or in an environment of its own, and say what differs first.

agentfw reproduce last --env
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import click

from agentfw.printing.out import Out, counted
from agentfw_cli.common import host_options, json_option, load_host, quiet_option, runs_folder, runs_option
from agentfw_cli.completion import RunName
from agentfw_cli.run import set_option


@click.command()
@click.argument("run", type=RunName())
@click.option("--env", is_flag=True, help="Install what the run was played with into an environment of its own, first.")
@set_option
@runs_option
@host_options
@quiet_option
@json_option
def reproduce(
    run: str,
    env: bool,
    assignments: tuple[str, ...],
    runs: Path | None,
    blocked: tuple[str, ...],
    strict: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Play RUN again, and compare every episode, figure and version with its own.

    RUN is the path or the name of a run, also of one that was copied from another machine. --set is for secrets, which
    aren't kept on disk. Exits with 0 if the records are equal, and with 1 if they aren't.

    \b
      agentfw reproduce last
      agentfw reproduce ~/downloads/2026-11-21-inbox-7f3a19c4 --env
    """
    from agentfw.boundary.settings_input import parse_assignments
    from agentfw.runs.records.folder import find_run
    from agentfw.runs.results.reproduction import (
        compare_records,
        environment_of,
        installation_differences,
        play_again,
    )
    from agentfw_cli.execution import play

    out = Out(json=as_json, quiet=quiet)
    root = runs_folder(runs)
    folder = find_run(root, run)
    if env:
        with out.progress("installing what the run was played with"):
            python = environment_of(folder, root)
        options = [*(f"--set={each}" for each in assignments), f"--runs={root}"]
        options += [*(f"--no-plugin={each}" for each in blocked), *["--strict-plugins"] * strict]
        options += [*["--quiet"] * quiet, *["--json"] * as_json]
        words = [str(python), "-m", "agentfw", "reproduce", str(folder.path), *options]
        raise click.exceptions.Exit(subprocess.run(words).returncode)
    host = load_host(out, blocked, strict)
    differences = installation_differences(folder)
    for line in differences:
        out.note(line)
    again = play_again(folder, host, root, parse_assignments(assignments))
    play(again, out)
    found = compare_records(folder, again.folder)
    if as_json:
        out.data(
            {
                "run": folder.id,
                "again": again.id,
                "equal": found.equal,
                "compared": found.compared,
                "first_difference": found.first or None,
                "share_within_rounding": found.rounding,
                "installation": differences,
            }
        )
    elif found.equal:
        out.line(f"equal: {counted(found.compared, 'record')} of {folder.id} and {again.id}, to the last digit")
    else:
        out.line(f"not equal: {found.first}")
        if found.rounding is not None:
            out.line(f"{found.rounding:.0%} of its figures are equal but for rounding")
        if not differences:
            out.note("the installation is the same, so something outside of it differs: a server, a file, the time")
        out.line(f"see: agentfw compare {folder.id} {again.id}")
    raise click.exceptions.Exit(0 if found.equal else 1)
