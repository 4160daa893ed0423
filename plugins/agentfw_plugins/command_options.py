"""What the plugins' commands share: options, how a result is printed, and how a text fits on one line.

Commands are imported for their `--help`, so this module imports nothing heavy.

    @click.command()
    @json_option
    def stats(out: Out) -> None:
        show(out, {"skills": 2}, "two skills")
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from agentfw.errors import UsageError
from agentfw.host import runs_directory
from agentfw.printing.out import Out

__all__ = [
    "confirm",
    "gateway_options",
    "json_option",
    "one_line",
    "runs_option",
    "set_option",
    "show",
    "spec_options",
    "yes_option",
]

Command = TypeVar("Command", bound=Callable[..., Any])

runs_option = click.option(
    "--runs",
    type=click.Path(path_type=Path),
    callback=lambda context, parameter, value: runs_directory(value),
    help="Directory of runs. Default: ./runs.",
)
"""The command gets the directory as `runs`, whether or not it was given."""
set_option = click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Change a setting. Can be repeated."
)
yes_option = click.option("--yes", is_flag=True, help="Skip the confirmation.")


def json_option(command: Command) -> Command:
    """Add `--json`. The command gets an `Out` as its parameter `out`."""
    return click.option(
        "--json",
        "out",
        is_flag=True,
        callback=lambda context, parameter, value: Out(json=value),
        help="Print the result as JSON and nothing else.",
    )(command)


def gateway_options(about: str) -> Callable[[Command], Command]:
    """`--runs`, `--sessions` (as `shared`) and `--json`, for a command on what one gateway has, or several share."""
    shared = click.option("--sessions", "shared", metavar="WHERE", default="", help=about)
    return lambda command: runs_option(shared(json_option(command)))


def spec_options(command: Command) -> Command:
    """The options of a live run that change its spec, under the names that `gateway.live.opened` gives them.

    The folders of `--skill` are allowed before the command begins.
    """

    def approved(context: click.Context, parameter: click.Parameter, skills: tuple[str, ...]) -> tuple[str, ...]:
        if skills and not context.resilient_parsing:
            from agentfw.host.trust import require_trusted_skills

            require_trusted_skills(skills, yes=bool(context.meta.get(__name__)))
        return skills

    for option in (
        click.option("--spec", type=click.Path(path_type=Path), help="Spec file (TOML) to start from."),
        set_option,
        click.option(
            "--hook", "hooks", multiple=True, metavar="NAME", help="Hook to use, such as approve. Can be repeated."
        ),
        click.option(
            "--reward", "rewards", multiple=True, metavar="NAME", help="Reward model to score with. Default: feedback."
        ),
        click.option(
            "--yes",
            is_flag=True,
            is_eager=True,  # before the folders are asked for
            expose_value=False,
            callback=lambda context, parameter, value: context.meta.update({__name__: value}),
            help="Approve the folders of --skill, which you have read.",
        ),
        click.option(
            "--skill",
            "skills",
            multiple=True,
            metavar="FOLDER",
            callback=approved,
            help="Skills to offer: a folder with a SKILL.md, one of such folders, or an Agent Plugin. Can be repeated.",
        ),
    ):
        command = option(command)
    return command


def confirm(question: str, yes: bool, fix: str = "add --yes") -> None:
    """Ask on the terminal before something is deleted for ever, unless `--yes` has answered."""
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("this can't be undone, and there is no terminal to confirm it on", fix=fix)
        click.confirm(question, abort=True, err=True)


def show(out: Out, result: object, *lines: str) -> None:
    """Print a result, as JSON if that was asked for, and otherwise in words."""
    if out.json:
        out.data(result)
    else:
        for line in lines:
            out.line(line)


def one_line(text: str) -> str:
    """A text without line breaks and repeated spaces.

    >>> one_line("Never move lunch,\\n  ever")
    'Never move lunch, ever'
    """
    return " ".join(text.split())
