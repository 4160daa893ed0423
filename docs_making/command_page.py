"""The pages reference/command-line.md: the help text of every command and subcommand that a distribution brings.

An option that several commands have word for word is explained once, at the command that they are all below.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import takewhile
from unittest.mock import patch

import click

from agentfw import metadata
from agentfw.metadata import EntryPoint
from agentfw_cli.main import cli

__all__ = ["command_page"]

_WIDTH = 100
_SEVERAL = 3
_ROOT = "agentfw"

_HEAD = """\
# Command line

The help text of every command, as `agentfw COMMAND --help` prints it. Options that several commands share are explained
once, and lists of subcommands are left out, because their sections follow. Data goes to stdout and everything else to
stderr. `agentfw --debug COMMAND` shows the traceback of an error. [Settings]({settings}) lists the exit codes and the
environment variables.

## Common options

`-h` and `--help` show the help of any command.
"""

Option = tuple[str, str]
"""Names and help text."""


def command_page(distribution: str, settings: str) -> str:
    """The whole page as Markdown; `settings` is a link to the page of settings."""
    others = set() if distribution == "agentfw" else {context.command_path for context in _contexts("")}
    contexts = {context.command_path: context for context in _contexts(distribution)}
    contexts = {path: context for path, context in contexts.items() if path not in others}
    homes = _homes(contexts)
    lines = [_HEAD.format(settings=settings), *_table(_ROOT, homes)]
    for path, context in contexts.items():
        level = "##" if path.count(" ") < 2 or path.rpartition(" ")[0] not in contexts else "###"
        lines += [f"{level} {path}", "", "```text", _help(context, distribution, homes), "```", ""]
        lines += _also(context, homes)
        lines += _table(path, homes) if path != _ROOT else []
    return "\n".join(lines).rstrip() + "\n"


def _contexts(distribution: str) -> Iterator[click.Context]:
    """That of each command, as if no other distribution brought any."""
    root = click.Context(cli, info_name=_ROOT, terminal_width=_WIDTH)
    root.help_option_names = []  # the head of the page tells of them
    with _only(distribution):
        yield from list(_below(root))


def _below(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            found = context.command.get_command(context, name)
            assert found is not None
            yield from _below(click.Context(found, info_name=name, parent=context, terminal_width=_WIDTH))


def _only(distribution: str) -> AbstractContextManager[object]:
    installed = metadata.entry_points

    def entry_points(group: str) -> list[EntryPoint]:
        return [entry for entry in installed(group) if entry.distribution == distribution]

    return patch.object(metadata, "entry_points", entry_points)


def _options(context: click.Context) -> dict[Option, click.Option]:
    """Those that may be explained elsewhere: a required one stays with its command."""
    options = [one for one in context.command.get_params(context) if isinstance(one, click.Option)]
    return {record: option for option in options if (record := option.get_help_record(context)) and not option.required}


def _homes(contexts: Mapping[str, click.Context]) -> dict[Option, str]:
    """Each option that several commands have, and the command that they are all below."""
    users: dict[Option, list[str]] = defaultdict(list)
    for path, context in contexts.items():
        for option in _options(context):
            users[option].append(path)
    homes: dict[Option, str] = {}
    taken = set()
    for option, paths in sorted(users.items(), key=lambda item: -len(item[1])):
        columns = zip(*(path.split() for path in paths), strict=False)
        home = " ".join(words[0] for words in takewhile(lambda words: len(set(words)) == 1, columns))
        if len(paths) >= _SEVERAL and (home, _flag(option)) not in taken:
            homes[option] = home
            taken.add((home, _flag(option)))
    return homes


def _help(context: click.Context, distribution: str, homes: Mapping[Option, str]) -> str:
    """The help text, without the options that are explained elsewhere."""
    elsewhere = [option for record, option in _options(context).items() if record in homes]
    for option in elsewhere:
        option.hidden = True
    with _only(distribution):
        text = context.command.get_help(context)
    for option in elsewhere:
        option.hidden = False
    if context.command_path != _ROOT:
        text = text.partition("\n\nCommands:\n")[0]  # their sections follow, and begin with the same words
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()


def _also(context: click.Context, homes: Mapping[Option, str]) -> list[str]:
    """A line that names the options explained elsewhere."""
    flags: dict[str, list[str]] = defaultdict(list)
    for option in _options(context):
        if option in homes:
            flags[homes[option]].append(f"`{_flag(option)}`")
    parts = [f"{', '.join(flags[home])} ({_link(home)})" for home in sorted(flags, key=len, reverse=True)]
    return [f"Also: {'; '.join(parts)}.", ""] if parts else []


def _link(home: str) -> str:
    return "[common](#common-options)" if home == _ROOT else f"[see above](#{home.replace(' ', '-')})"


def _table(home: str, homes: Mapping[Option, str]) -> list[str]:
    options = [option for option, at in homes.items() if at == home]
    rows = [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in options]
    title = [] if home == _ROOT else ["Options of several of these commands:", ""]
    return [*title, "| option | what it does |", "| --- | --- |", *rows, ""] if rows else []


def _flag(option: Option) -> str:
    return option[0].split()[0].rstrip(",")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
