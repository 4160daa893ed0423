"""The contract of the commands that plugins add to `agentfw`.

A command that needs no argument is called with `--help` and with a wrong option alone: it could do anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .checks import Subject, require, working_folder

if TYPE_CHECKING:
    import click
    from click.testing import Result

Commands = Subject["click.Command"]


def _leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Each command below, with the words that lead to it."""
    import click

    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        if (below := command.get_command(context, name)) is not None:
            yield from _leaves(below, (*path, name))


def _called(subject: Commands, *words: str) -> Result:
    from click.testing import CliRunner

    with working_folder(subject.folder / "work"):
        return CliRunner().invoke(subject.make(), words)


def it_is_a_command(subject: Commands) -> None:
    """It is a click command, or a group of them."""
    import click

    made = subject.make()
    require(isinstance(made, click.Command), f"it is a {type(made).__name__}; mark a function with @click.command()")
    require(any(_leaves(made)), "it is a group without a command")


def it_says_what_it_does(subject: Commands) -> None:
    """`--help` says what it does, and what each of its options is for."""
    import click

    for path, command in _leaves(subject.make()):
        words = " ".join(path) or "it"
        wrong = f"{words} has no help; give its function a docstring"
        require((command.help or command.short_help or "").strip(), wrong)
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                require(option.help, f"the option {option.opts[0]} of {words} has no help=")
        shown = _called(subject, *path, "--help")
        require(shown.exit_code == 0, f"{words} --help ends with {shown.exit_code}: {shown.exception!r}")


def it_speaks_json(subject: Commands) -> None:
    """It has `--json`, so that programs can use it; of a group, at least one command."""
    options = [option for _, command in _leaves(subject.make()) for one in command.params for option in one.opts]
    require("--json" in options, "it has no --json; add an option that prints the result as JSON and nothing else")


def wrong_arguments_are_usage_errors(subject: Commands) -> None:
    """An option that doesn't exist, and a file that isn't there, are errors in words with exit code 1 or 2."""
    import click

    from ..errors import AgentfwError

    for path, command in _leaves(subject.make()):
        required = [one for one in command.params if isinstance(one, click.Argument) and one.required]
        files = ["no-such-file"] * sum(max(1, one.nargs) for one in required)
        for some in filter(None, (["--no-such-option"], files)):
            ended, line = _called(subject, *path, *some), " ".join((*path, *some))
            fine = isinstance(ended.exception, (SystemExit, AgentfwError, type(None)))
            require(fine, f'called with "{line}", it raises {ended.exception!r}; raise click.UsageError')
            refused = ended.exit_code not in (0, None) or some is files
            require(refused, f'called with "{line}", it ends as if all were well')
