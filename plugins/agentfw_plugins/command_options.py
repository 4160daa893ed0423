"""What the plugins' commands share: the option `--json`, and how a text fits on one line.

Commands are imported for their `--help`, so this module imports nothing heavy.

    @click.command()
    @json_option
    def stats(out: Out) -> None:
        out.line("two skills")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from agentfw.printing.out import Out

__all__ = ["json_option", "one_line"]

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """Add `--json`. The command gets an `Out` as its parameter `out`."""
    return click.option(
        "--json",
        "out",
        is_flag=True,
        callback=lambda context, parameter, value: Out(json=value),
        help="Print the result as JSON and nothing else.",
    )(command)


def one_line(text: str) -> str:
    """A text without line breaks and repeated spaces.

    >>> one_line("Never move lunch,\\n  ever")
    'Never move lunch, ever'
    """
    return " ".join(text.split())
