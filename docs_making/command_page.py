"""The pages reference/command-line.md: the help text of every command and subcommand that a distribution brings.

An option that several commands have word for word is explained once, at the command that they are all below. Where
that command isn't on the page, or is `agentfw` itself and only two have the option, the first of them explains it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import takewhile
from unittest.mock import patch

import click

from agentfw.boundary import metadata
from agentfw.boundary.metadata import EntryPoint
from agentfw_cli.main import cli

_WIDTH = 100
_FIRST_COLUMN = 30
_SEVERAL = 3
_MANY = 5
_ROOT = "agentfw"
_JSON = "--json"
_OF_PLUGINS = ("--strict-plugins", "--no-plugin")

_HEAD = """\
# Command line

What `agentfw COMMAND --help` prints, with shared options explained once. Data goes to stdout, everything else to
stderr. [Settings]({settings}) lists exit codes and environment variables.

## Common options

Every command has `--help`{every}.
"""

Option = tuple[str, str]
"""Names and help text."""


def command_page(distribution: str, settings: str) -> str:
    """The whole page as Markdown; `settings` is a link to the page of settings."""
    others = set() if distribution == "agentfw" else {context.command_path for context in _contexts("")}
    contexts = {context.command_path: context for context in _contexts(distribution)}
    contexts = {path: context for path, context in contexts.items() if path not in others}
    homes = _homes(contexts)
    lines = [_HEAD.format(settings=settings, every=_without_json(contexts)), *_table(_ROOT, homes)]
    for path, context in contexts.items():
        level = "##" if path.count(" ") < 2 or path.rpartition(" ")[0] not in contexts else "###"
        lines += [f"{level} {path}", "", "```text", _help(context, distribution, homes), "```", ""]
        lines += _also(context, homes, contexts)
        if isinstance(context.command, click.Group) and path != _ROOT:
            lines += _of_several(path, homes, contexts)
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
        if len(paths) < _SEVERAL if home == _ROOT else home not in contexts:
            home = paths[0]
        if len(paths) > 1 and (home, _flag(option)) not in taken:
            homes[option] = home
            taken.add((home, _flag(option)))
    return homes


def _help(context: click.Context, distribution: str, homes: Mapping[Option, str]) -> str:
    """The help text, without the options that are explained elsewhere."""
    here = "" if isinstance(context.command, click.Group) else context.command_path
    elsewhere = [option for record, option in _options(context).items() if homes.get(record, here) != here]
    for option in elsewhere:
        option.hidden = True
    with _only(distribution):
        text = context.command.get_help(context)
    for option in elsewhere:
        option.hidden = False
    for title in ("Commands", "More commands", "Worlds"):  # their sections follow
        text = text.partition(f"\n\n{title}:\n")[0]
    arguments = [one.make_metavar(context) for one in context.command.params if isinstance(one, click.Argument)]
    described = text.partition("\n\n")[2]  # after the usage, which says no more than the heading and the arguments
    text = "\n\n".join([f"Arguments: {' '.join(arguments)}", described]) if arguments else described
    return _unpadded(text)


def _also(context: click.Context, homes: Mapping[Option, str], contexts: Mapping[str, click.Context]) -> list[str]:
    """A line that names the options explained elsewhere, without those of every command there."""
    flags: dict[str, list[str]] = defaultdict(list)
    for option in _options(context):
        home = homes.get(option, context.command_path)
        named = _flag(option) not in (_JSON, *_OF_PLUGINS) and option not in _of_all(home, homes, contexts)
        if home != context.command_path and named:
            flags[home].append(f"`{_flag(option)}`")
    for home in [path for path in flags if path in contexts and isinstance(contexts[path].command, click.Group)]:
        shared = [option for option, at in homes.items() if at == home]
        if len(flags[home]) > _MANY and len(flags[home]) + len(_of_all(home, homes, contexts)) == len(shared):
            flags[home] = ["all shared options"]
    parts = [f"{', '.join(flags[home])}{_link(home)}" for home in sorted(flags, key=len, reverse=True)]
    return [f"Also: {'; '.join(parts)}.", ""] if parts else []


def _link(home: str) -> str:
    return "" if home == _ROOT else f" ([above](#{home.replace(' ', '-')}))"


def _table(home: str, homes: Mapping[Option, str]) -> list[str]:
    options = [option for option, at in homes.items() if at == home]
    formatter = click.HelpFormatter(width=_WIDTH)
    formatter.write_dl(options, col_max=_FIRST_COLUMN) if options else None
    return ["```text", _unpadded(formatter.getvalue()), "```", ""] if options else []


def _unpadded(text: str) -> str:
    """Without spaces at ends, and without a word that the range behind an option says already."""
    lines = re.sub("(INTEGER|FLOAT) RANGE", r"\1      ", text).splitlines()
    return "\n".join(line.rstrip() for line in lines).rstrip()


def _of_several(home: str, homes: Mapping[Option, str], contexts: Mapping[str, click.Context]) -> list[str]:
    """The table of the options that several commands of a group have."""
    everywhere = [f"`{_flag(option)}`" for option in _of_all(home, homes, contexts)]
    which = f" All of them have {' and '.join(everywhere)}." if everywhere else ""
    table = _table(home, homes)
    return [f"Options of several of these commands.{which}", "", *table] if table else []


def _of_all(home: str, homes: Mapping[Option, str], contexts: Mapping[str, click.Context]) -> list[Option]:
    """The options of a home that every command below it has."""
    below = [_options(one) for path, one in contexts.items() if path.startswith(f"{home} ") and _plays(one)]
    return [option for option, at in homes.items() if at == home and below and all(option in one for one in below)]


def _without_json(contexts: Mapping[str, click.Context]) -> str:
    """What the page's head says of the one option that is nowhere named again."""
    options = {path: [_flag(one) for one in _options(context)] for path, context in contexts.items() if _plays(context)}
    without = [f"`{path}`" for path, flags in options.items() if _JSON not in flags]
    some = any(_OF_PLUGINS[0] in flags for flags in options.values())
    plugins = f". Those that load plugins have {' and '.join(f'`{one}`' for one in _OF_PLUGINS)}" if some else ""
    return f", and `--json`{', except ' + ' and '.join(without) if without else ''}{plugins}"


def _plays(context: click.Context) -> bool:
    """Whether it does something itself, and isn't only a name for several commands."""
    return not isinstance(context.command, click.Group) or context.command.invoke_without_command


def _flag(option: Option) -> str:
    return option[0].split()[0].rstrip(",")
