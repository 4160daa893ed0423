"""What several commands of `agentfw memory` share: metadata, filters and times as options, and asking before deleting.

This module is imported for `agentfw memory --help`, so it imports nothing heavy.
"""

from __future__ import annotations

import json
import math
import sys
from datetime import UTC, datetime
from typing import Any

import click

from agentfw.errors import UsageError

__all__ = ["confirmed", "day", "expires_option", "metadata_option", "where_option"]


def _object(context: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        found = json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f'{value!r} is not JSON ({error}); write it like \'{{"kind": "note"}}\'') from None
    if not isinstance(found, dict):
        raise click.BadParameter(f'{value!r} is not an object; write it like \'{{"kind": "note"}}\'')
    return found


def _time(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    if value is None or value == "never":
        return None if value is None else math.inf
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not a time; write it like 2027-01-31 or 2027-01-31T18:00+01:00"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


metadata_option = click.option(
    "--metadata", callback=_object, metavar="JSON", help="Values to filter by, as an object."
)
where_option = click.option(
    "--where", callback=_object, metavar="JSON", help='Only skills whose metadata fits, such as {"kind": "note"}.'
)
expires_option = click.option(
    "--expires", "expires_at", callback=_time, metavar="TIME", help="When the skill ends by itself (UTC), or never."
)


def day(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).date().isoformat()


def confirmed(question: str, yes: bool, again: str) -> None:
    """Ask before something that can't be undone, unless `yes`."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("this can't be undone, and there is no terminal to confirm it on", fix=again)
    click.confirm(f"{question} This cannot be undone.", abort=True, err=True)
