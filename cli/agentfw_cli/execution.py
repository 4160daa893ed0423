"""Executes a run: with a live picture, a report at the end, and a way to resume whatever stops it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.errors import AgentfwError, SettingsError, StorageError, UsageError
from agentfw.printing.out import Out
from agentfw_cli.common import Given, name_of, note_problems

if TYPE_CHECKING:
    from agentfw.host import Host
    from agentfw.runs.records.summary import Summary
    from agentfw.runs.run import Run
    from agentfw.runs.spec.start import Start
    from agentfw_cli.interrupts import Interrupted


def execute_spec(
    given: Given,
    start: Start,
    check: Callable[[dict[str, Any]], object],
    *,
    environment: str | None,
    distributions: tuple[str, ...],
    assignments: tuple[str, ...],
    spec: Path | None,
    yes: bool = False,
    samples: bool = False,
    **chosen: Any,
) -> None:
    """Make a run of what was typed, and execute it.

    `start` gives the values of the spec that it starts from, `check` raises where the command is not for such a spec.
    """
    from agentfw.boundary.settings_input import parse_assignments
    from agentfw.host.trust import require_trusted_skills
    from agentfw.runs.run import Run
    from agentfw.runs.spec.resolution import checked_spec
    from agentfw.runs.spec.start import chosen_values, naming_layers

    root = given.root
    file = spec and (spec if spec.suffix == ".toml" or spec.is_file() else given.folder(str(spec)).path).absolute()
    host = given.host()
    for distribution in distributions:
        host.select_distribution(distribution)
    changes = parse_assignments(assignments)
    require_trusted_skills(chosen.get("skills", ()), yes=yes)
    values = chosen_values(host, start, environment, file, runs=root, options=chosen, assignments=changes)
    check(values)
    try:
        with naming_layers(values):
            run = Run.create(checked_spec(values, host), host, root)
    except SettingsError as error:
        # Nobody has typed that.
        error.message, error.fix = (text.replace("spec.", "") for text in (error.message, error.fix))
        raise
    execute(run, host, given.out, samples=samples)


def execute(run: Run, host: Host, out: Out, *, samples: bool = False) -> None:
    """Execute a run, write its report, and print the result."""
    from agentfw.runs.results.run_report import write_report
    from agentfw_cli.result_table import print_result

    note_problems(host, out, selected=True)
    if gpus := run.folder.about.get("gpus"):
        out.note(gpus)
    try:
        summary = play(run, out, samples=samples)
    finally:
        note_problems(host, out, selected=True)
    files, failed = list[Path](), None
    try:
        with out.progress("writing the report"):
            files = write_report(run.folder)
    except StorageError as error:  # the run itself is done: its result is printed first
        failed = error
        failed.fix += f"; then: agentfw report {name_of(run.folder)}"
    if out.json:
        out.data({**summary.to_record(), "folder": str(run.folder.path), "files": [str(file) for file in files]})
    else:
        print_result(run.info, summary, out, files)
    if failed is not None:
        raise failed


def play(run: Run, out: Out, *, samples: bool = False) -> Summary:
    """Execute a run with a live picture. Whatever stops it, a line says how to resume."""
    from agentfw_cli.interrupts import Interrupted, end_process, run_until_interrupted
    from agentfw_cli.live import watch

    def give_up(error: AgentfwError) -> None:
        _say_how_to_resume(run, error)
        out.error(error.message, error.fix)
        end_process(error.exit_code)

    try:
        with watch(run.info, out, samples=samples) as observer:
            return run_until_interrupted(run.execute(observer, give_up), lambda why: _tell_interrupted(run, why, out))
    except AgentfwError as error:
        _say_how_to_resume(run, error)
        raise
    except Interrupted as interrupted:
        _tell_interrupted(run, interrupted, out)
        raise click.exceptions.Exit(interrupted.exit_code) from None


def _say_how_to_resume(run: Run, error: AgentfwError) -> None:
    if not isinstance(error, UsageError):  # a wrong setting stays wrong
        change = f" --set {error.change}" if error.change else ""
        error.fix = f"{error.fix}; then resume: agentfw runs resume {name_of(run.folder)}{change}".removeprefix("; ")


def _tell_interrupted(run: Run, interrupted: Interrupted, out: Out) -> None:
    try:
        done = f" ({run.folder.how_far})"
    except AgentfwError:  # damaged: the next command says so
        done = ""
    out.error(
        f"every episode that was finished is kept{done}",
        f"resume with: agentfw runs resume {name_of(run.folder)}",
        label=interrupted.label,
    )
