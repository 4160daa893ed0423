"""Names that the shell completes: components, specs, plugins and runs.

Nothing is printed while it does, and a name that isn't known stays what was typed: the command says what is wrong.

    click.option("--policy", type=ComponentName("policy"))
    click.argument("run", type=RunName())
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from agentfw.printing.out import Out
from agentfw_cli.common import load_host, runs_folder

if TYPE_CHECKING:
    from agentfw.host import Host

_RUNS = 50
"""The newest ones that are completed."""


class _Name(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in some versions of click only
    name = "text"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from agentfw.errors import AgentfwError

        try:
            known = dict(self._known())
        except AgentfwError:  # a shell can't show it; the command itself will
            return []
        return [CompletionItem(name, help=words) for name, words in known.items() if name.startswith(incomplete)]

    def _known(self) -> Iterable[tuple[str, str]]:
        raise NotImplementedError


class ComponentName(_Name):
    """A component of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def _known(self) -> Iterable[tuple[str, str]]:
        names = [(found.component.name, found.component.summary) for found in _host().components(self.kind)]
        return [*names, *RunName().known()] if self.kind == "policy" else names  # a run stands for its policy


class EnvironmentName(ComponentName):
    """An environment, or a spec whose name begins with `prefix`, named without it."""

    def __init__(self, prefix: str = "") -> None:
        super().__init__("environment")
        self.prefix = prefix

    def _known(self) -> Iterable[tuple[str, str]]:
        specs = {name: spec.summary for name, spec in _host().specs().items() if name.startswith(self.prefix)}
        return [*super()._known(), *((name.removeprefix(self.prefix), words) for name, words in specs.items())]


class PluginName(_Name):
    """A component, or a distribution with plugins."""

    def _known(self) -> Iterable[tuple[str, str]]:
        host = _host()
        components = [(found.component.name, f"{found.kind}: {found.component.summary}") for found in host.components()]
        return [*components, *((record.distribution, "distribution") for record in host.plugins)]


class RunName(_Name):
    """A run in the directory of runs."""

    def _known(self) -> Iterable[tuple[str, str]]:
        return self.known()

    def known(self) -> list[tuple[str, str]]:
        from agentfw.runs.records.run_index import newest_first

        return [("last", "the newest run"), *((name, "") for name in newest_first(runs_folder(None))[:_RUNS])]


_OF_PLUGINS: dict[str, _Name] = {
    **{f"--{kind}": ComponentName(kind) for kind in ("policy", "memory", "tool", "reward")},
    **dict.fromkeys(("--resume", "run", "runs"), RunName()),
}
"""How the command of a plugin names what is completed. It can't import this module."""


def complete_names(command: click.Command) -> None:
    """Complete names in the options and arguments of a plugin's command, as in those of `agentfw run`."""
    for parameter in command.params:
        found = _OF_PLUGINS.get(parameter.opts[0])
        if found is not None and parameter.type is click.STRING:
            parameter.type = found
    if isinstance(command, click.Group):
        for below in command.commands.values():
            complete_names(below)


def _host() -> Host:
    with redirect_stdout(sys.stderr):  # what a plugin prints when it is imported is no name
        return load_host(Out(quiet=True), tell=False)
