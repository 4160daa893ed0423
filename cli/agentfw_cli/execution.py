"""Executes a run: with a live picture, a report at the end, and a way to resume whatever stops it.

execute(Run.create(spec, host, root), host, out)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.out import Out
from agentfw_cli.common import load_host, name_of, note_problems, runs_folder

if TYPE_CHECKING:
    from agentfw.host import Host
    from agentfw.runs.records.summary import Summary
    from agentfw.runs.run import Run

__all__ = ["execute", "execute_spec", "play"]


def execute_spec(
    start: Callable[[Host, str | None, Path | None], dict[str, Any]],
    check: Callable[[dict[str, Any]], object],
    *,
    environment: str | None,
    distributions: tuple[str, ...],
    assignments: tuple[str, ...],
    spec: Path | None,
    runs: Path | None,
    blocked: tuple[str, ...],
    strict: bool,
    quiet: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Make a run of what was typed, and execute it.

    `start` gives the values of the spec that it starts from, `check` raises where the command is not for such a spec.
    """
    from agentfw.runs.run import Run
    from agentfw.runs.spec.run_spec import apply_assignments, parse_spec
    from agentfw.runs.spec.start import with_choices
    from agentfw.settings import parse_assignments

    out = Out(json=as_json, quiet=quiet)
    host = load_host(out, blocked, strict)
    for distribution in distributions:
        host.select_distribution(distribution)
    values = with_choices(start(host, environment, spec), chosen)
    values = apply_assignments(values, parse_assignments(assignments))
    check(values)
    execute(Run.create(parse_spec(values), host, runs_folder(runs)), host, out)


def execute(run: Run, host: Host, out: Out) -> None:
    """Execute a run, write its report, and print the result."""
    from agentfw.errors import StorageError
    from agentfw.runs.results.run_report import write_report
    from agentfw_cli.result_table import print_result

    try:
        summary = play(run, out)
    finally:
        note_problems(host, out, selected=True)
    files, failed = list[Path](), None
    try:
        files = write_report(run.folder)
    except StorageError as error:  # the run itself is done: its result is printed first
        failed = error
        failed.fix += f"; then: agentfw report {name_of(run.folder)}"
    if out.json:
        record = summary.to_record()
        out.data({**record, "folder": str(run.folder.path), "files": [str(file) for file in files]})
    else:
        print_result(run.info, summary, out, files)
    if failed is not None:
        raise failed


def play(run: Run, out: Out) -> Summary:
    """Execute a run with a live picture. Whatever stops it, a line says how to resume."""
    from agentfw.errors import AgentfwError, BudgetSpentError, UsageError
    from agentfw.host.plugin_guard import stdout_to_stderr
    from agentfw_cli.interrupts import Interrupted, run_until_interrupted
    from agentfw_cli.live import watch

    try:
        # An environment or a tracker that prints must not get between our lines on stdout.
        with stdout_to_stderr(), watch(run.info, out) as observer:
            return run_until_interrupted(lambda give_up: run.execute(observer, give_up))
    except AgentfwError as error:
        if not isinstance(error, UsageError):  # a wrong setting stays wrong
            change = f" --set {error.change}" if isinstance(error, BudgetSpentError) else ""
            error.fix = f"{error.fix}; then resume: agentfw runs resume {name_of(run.folder)}{change}".removeprefix(
                "; "
            )
        raise
    except Interrupted as interrupted:
        out.error(
            "every episode that was finished is kept",
            f"resume with: agentfw runs resume {name_of(run.folder)}",
            label=interrupted.label,
        )
        raise click.exceptions.Exit(interrupted.exit_code) from None
