"""The page docs/reference/command-line.md: the help text of every command and subcommand."""

from __future__ import annotations

from collections.abc import Iterator

import click

from agentfw.metadata import entry_points
from agentfw_cli.main import cli

__all__ = ["command_page"]

_WIDTH = 100

_HEAD = """\
# Command line

Every help text, as `agentfw COMMAND --help` prints it. Data goes to stdout and everything else to stderr. `--json`
prints one JSON value, and `--debug` shows the traceback of an error. [Settings](settings.md) lists the exit codes and
the environment variables.
"""


def command_page() -> str:
    """The whole page as Markdown."""
    lines = [_HEAD]
    for path, text in _helps(
        cli, click.Context(cli, info_name="agentfw", terminal_width=_WIDTH, help_option_names=["-h", "--help"])
    ):
        level = "##" if path.count(" ") < 2 else "###"
        lines += [f"{level} {path}", "", "```text", text.rstrip(), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def _helps(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """The command and all below it, each with its help text."""
    yield context.command_path, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if command is cli and name in _foreign():
                continue
            found = command.get_command(context, name)
            assert found is not None
            yield from _helps(found, click.Context(found, info_name=name, parent=context, terminal_width=_WIDTH))


def _foreign() -> set[str]:
    """Commands of other distributions that happen to be installed."""
    return {entry.name for entry in entry_points("agentfw.commands") if entry.distribution != "agentfw"}
