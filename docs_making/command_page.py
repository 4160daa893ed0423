"""The pages reference/command-line.md: the help text of every command and subcommand that a distribution brings."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import click

from agentfw import metadata
from agentfw.metadata import EntryPoint
from agentfw_cli.main import cli

__all__ = ["command_page"]

_WIDTH = 100

_HEAD = """\
# Command line

Every help text, as `agentfw COMMAND --help` prints it. Data goes to stdout and everything else to stderr. `--json`
prints one JSON value, and `--debug` shows the traceback of an error. [Settings]({settings}) lists the exit codes and
the environment variables.
"""


def command_page(distribution: str, settings: str) -> str:
    """The whole page as Markdown; `settings` is a link to the page of settings."""
    helps = _helps_with(distribution)
    if distribution != "agentfw":
        helps = {path: text for path, text in helps.items() if path not in _helps_with("")}
    lines = [_HEAD.format(settings=settings)]
    for path, text in helps.items():
        level = "##" if path.count(" ") < 2 or path.rpartition(" ")[0] not in helps else "###"
        lines += [f"{level} {path}", "", "```text", text.rstrip(), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _helps_with(distribution: str) -> dict[str, str]:
    """The help text of each command, as if no other distribution brought any."""
    installed = metadata.entry_points

    def entry_points(group: str) -> list[EntryPoint]:
        return [entry for entry in installed(group) if entry.distribution == distribution]

    context = click.Context(cli, info_name="agentfw", terminal_width=_WIDTH, help_option_names=["-h", "--help"])
    with patch.object(metadata, "entry_points", entry_points):
        return dict(_helps(cli, context))


def _helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """The command and all below it, each with its help text."""
    yield context.command_path, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _helps(found, click.Context(found, info_name=name, parent=context, terminal_width=_WIDTH))
