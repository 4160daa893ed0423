"""Options that several commands share, and the host that they load with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentfw_cli.out import Out

if TYPE_CHECKING:
    from agentfw.host import Host

__all__ = ["host_options", "json_option", "load_host", "runs_folder", "runs_option"]

Command = TypeVar("Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, and nothing else.")
runs_option = click.option("--runs", type=click.Path(path_type=Path), help="Where runs are kept (./runs).")


def host_options(command: Command) -> Command:
    command = click.option("--no-plugin", "blocked", multiple=True, metavar="NAME", help="Leave a plugin out.")(command)
    return click.option("--strict-plugins", "strict", is_flag=True, help="Any problem of any plugin is an error.")(command)


def load_host(out: Out, blocked: tuple[str, ...] = (), strict: bool = False) -> Host:
    """The host of this folder and environment; what it has to say goes to stderr."""
    from agentfw.host import Host, HostOptions
    from agentfw.project import find_project

    host = Host.load(HostOptions.from_environment(blocked=blocked, strict=strict, project=find_project()))
    for line in host.notes:
        out.note(f"plugin: {line}")
    host.notes.clear()
    return host


def runs_folder(given: Path | None) -> Path:
    """Where runs are kept: as given, as agentfw.toml says, or ./runs."""
    if given is not None:
        return given
    from agentfw.project import find_project

    project = find_project()
    return project.runs if project is not None else Path("runs")
