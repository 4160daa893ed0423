"""What the plugins' commands share: the options `--json`, `--runs` and `--skill`, and how a text fits on one line.

Commands are imported for their `--help`, so this module imports nothing heavy.

    @click.command()
    @json_option
    def stats(out: Out) -> None:
        out.line("two skills")
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from agentfw.printing.out import Out

__all__ = ["json_option", "one_line", "runs_option", "skill_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

runs_option = click.option("--runs", type=click.Path(path_type=Path), help="Directory of runs. Default: ./runs.")


def json_option(command: Command) -> Command:
    """Add `--json`. The command gets an `Out` as its parameter `out`."""
    return click.option(
        "--json",
        "out",
        is_flag=True,
        callback=lambda context, parameter, value: Out(json=value),
        help="Print the result as JSON and nothing else.",
    )(command)


def skill_options(command: Command) -> Command:
    """Add `--skill`, as `skills`, and `--yes`. The folders are allowed before the command begins."""

    def approved(context: click.Context, parameter: click.Parameter, skills: tuple[str, ...]) -> tuple[str, ...]:
        if skills and not context.resilient_parsing:
            from agentfw.host.trust import require_trusted_skills

            require_trusted_skills(skills, yes=bool(context.meta.get(__name__)))
        return skills

    command = click.option(
        "--yes",
        is_flag=True,
        is_eager=True,  # before the folders are asked for
        expose_value=False,
        callback=lambda context, parameter, value: context.meta.update({__name__: value}),
        help="Approve the folders of --skill, which you have read.",
    )(command)
    return click.option(
        "--skill",
        "skills",
        multiple=True,
        metavar="FOLDER",
        callback=approved,
        help="Skills to offer: a folder with a SKILL.md, one of such folders, or an Agent Plugin. Can be repeated.",
    )(command)


def one_line(text: str) -> str:
    """A text without line breaks and repeated spaces.

    >>> one_line("Never move lunch,\\n  ever")
    'Never move lunch, ever'
    """
    return " ".join(text.split())
