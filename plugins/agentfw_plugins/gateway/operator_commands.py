"""`agentfw serve keys` and `agentfw serve sessions`: who has a key of the gateway, what is deleted of a database."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentfw.errors import UsageError
from agentfw.printing.out import Out, counted

from ..command_options import confirm, gateway_options, json_option, show, yes_option

if TYPE_CHECKING:
    from .keys import Keys

_where = gateway_options("Keys of gateways that share these.")


def keys_at(runs: Path, shared: str) -> Keys:
    """The keys of a gateway: those in the database that it shares with others, if it does, or in a file."""
    from .keys import KeyFile

    if not shared:
        return KeyFile(runs / "keys.json")
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
def add(name: str, user: str | None, any_user: bool, per_minute: int | None, runs: Path, shared: str, out: Out) -> None:
    """Make a key, and print it. It is shown once; only its digest is stored."""
    if user is not None and any_user:
        raise UsageError("--user and --any-user exclude each other", fix="leave one of them out")
    place = keys_at(runs, shared)
    is_first = not place.keys()
    secret = place.add(name, user=None if any_user else user or "", per_minute=per_minute)
    show(out, {"name": name, "user": None if any_user else user or name, "key": secret}, secret)
    if not out.json:
        out.note(f"the key of {name}, in {place.place}; it is not shown again")
        if is_first:
            out.note("this is the first key: from now on the gateway serves nobody without one")


@keys.command("list")
@_where
def list_(runs: Path, shared: str, out: Out) -> None:
    """List the keys, without their secrets."""
    found = keys_at(runs, shared).keys()
    if out.json:
        out.data([{name: value for name, value in asdict(key).items() if name != "digest"} for key in found])
        return
    named = [(key, "any" if key.user is None else key.user) for key in found]
    rows = [[key.name, user, str(key.per_minute or ""), key.created] for key, user in named]
    out.table(["key", "user", "a minute", "since"], rows, right=(2,))


@keys.command()
@click.argument("name")
@_where
def revoke(name: str, runs: Path, shared: str, out: Out) -> None:
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
@yes_option
@json_option
def delete(where: str, user: str, space: str, before: datetime | None, yes: bool, out: Out) -> None:
    """Delete the sessions for which all the given options hold, with everything that was said in them.

    A session that is being answered stays. So does what gateways and trainings have of it in their own runs. This
    cannot be undone.
    """
    from .sessions.session_store import Chosen, SessionJournal

    if not (user or space or before):
        raise UsageError("nothing says which sessions", fix="use --user, --key or --before")
    confirm("Delete these sessions?", yes)
    with closing(SessionJournal(where)) as journal:
        deleted, left = journal.delete(Chosen(user, space, before.timestamp() if before else None))
    show(out, {"deleted": deleted, "in_use": left}, f"{counted(deleted, 'session')} deleted")
    if left and not out.json:
        out.warning(f"{counted(left, 'session')} in use and not deleted; run the same command again later")
