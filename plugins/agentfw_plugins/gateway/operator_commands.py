"""`agentfw serve keys` and `agentfw serve sessions`: who has a key of the gateway, and what is deleted of a database.

    agentfw serve keys add ada --per-minute 60
    agentfw serve keys list
    agentfw serve keys revoke ada
    agentfw serve sessions delete postgresql://db.example.org/agentfw --before 2026-08-01 --yes

This module is imported for --help, so each command imports what it needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentfw.errors import UsageError
from agentfw.printing.out import Out, counted

from ..command_options import json_option, runs_option

if TYPE_CHECKING:
    from .keys import Keys

Command = TypeVar("Command", bound=Callable[..., Any])


def _where(command: Command) -> Command:
    """The options that say which keys are meant, as `agentfw serve` has them."""
    shared = click.option(
        "--sessions", "shared", metavar="WHERE", default="", help="Keys of gateways that share these."
    )
    return runs_option(shared(command))


def keys_at(runs: Path | None, shared: str) -> Keys:
    """The keys of a gateway: those in the database that it shares with others, if it does, or in a file."""
    from agentfw.host import runs_directory

    from .keys import KeyFile

    if not shared:
        return KeyFile(runs_directory(runs) / "keys.json")
    from .sessions.session_database import SessionDatabase, SharedKeys

    return SharedKeys(SessionDatabase(shared))


@click.group()
def keys() -> None:
    """Give keys to users and programs, and take them back.

    As soon as there is a key, the gateway serves nobody without one, this machine included. Gateways that share
    sessions have their keys there: give the commands the same --sessions.
    """


@keys.command()
@click.argument("name")
@click.option("--user", help="User whom all requests with this key are of. Default: NAME.")
@click.option("--any-user", is_flag=True, help="Let the program that has the key name the user in each request.")
@click.option("--per-minute", type=click.IntRange(1), help="Maximum number of answers in a minute.")
@_where
@json_option
def add(
    name: str,
    user: str | None,
    any_user: bool,
    per_minute: int | None,
    runs: Path | None,
    shared: str,
    out: Out,
) -> None:
    """Make a key, and print it. It is shown once; only its digest is stored."""
    if user is not None and any_user:
        raise UsageError("--user and --any-user exclude each other", fix="leave one of them out")
    place = keys_at(runs, shared)
    whose = None if any_user else user or ""
    secret = place.add(name, user=whose, per_minute=per_minute)
    if out.json:
        out.data({"name": name, "user": None if any_user else user or name, "key": secret})
        return
    out.line(secret)
    out.note(f"the key of {name}, in {place.place}; it is not shown again")


@keys.command("list")
@_where
@json_option
def list_(runs: Path | None, shared: str, out: Out) -> None:
    """List the keys, without their secrets."""
    found = keys_at(runs, shared).keys()
    if out.json:
        out.data([{name: value for name, value in asdict(key).items() if name != "digest"} for key in found])
        return
    rows = [
        [key.name, "any" if key.user is None else key.user, str(key.per_minute or ""), key.created] for key in found
    ]
    out.table(["key", "user", "a minute", "since"], rows, right=(2,))


@keys.command()
@click.argument("name")
@_where
@json_option
def revoke(name: str, runs: Path | None, shared: str, out: Out) -> None:
    """Take a key back. The gateway refuses its next request."""
    keys_at(runs, shared).revoke(name)
    if out.json:
        out.data({"revoked": name})
    else:
        out.note(f"{name} has no key any more; its sessions stay")


@click.group()
def sessions() -> None:
    """Delete sessions that gateways share.

    WHERE is what the gateways have as --sessions: a postgresql:// address, or a file.
    """


@sessions.command()
@click.argument("where")
@click.option("--user", default="", help="Sessions of this user.")
@click.option("--key", "space", default="", metavar="NAME", help="Sessions that were led with this key.")
@click.option("--before", type=click.DateTime(), metavar="TIME", help="Sessions that were last used before then.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@json_option
def delete(where: str, user: str, space: str, before: datetime | None, yes: bool, out: Out) -> None:
    """Delete the sessions for which all the given options hold, with everything that was said in them.

    A session that is being answered stays. So does what gateways and trainings have of it in their own runs. This
    cannot be undone.
    """
    from .sessions.session_store import Chosen, SessionJournal

    if not (user or space or before):
        raise UsageError("nothing says which sessions", fix="use --user, --key or --before")
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("this can't be undone, and there is no terminal to confirm it on", fix="add --yes")
        click.confirm("Delete these sessions?", abort=True, err=True)
    journal = SessionJournal(where)
    try:
        deleted, left = journal.delete(Chosen(user, space, before.timestamp() if before else None))
    finally:
        journal.close()
    if out.json:
        out.data({"deleted": deleted, "in_use": left})
        return
    out.line(f"{counted(deleted, 'session')} deleted")
    if left:
        out.warning(f"{counted(left, 'session')} in use and not deleted; run the same command again later")
