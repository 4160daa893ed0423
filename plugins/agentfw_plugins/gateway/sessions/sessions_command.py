"""`agentfw serve sessions`: the sessions that gateways share, as a table or out of the database.

    agentfw serve sessions export postgresql://db.example.org/agentfw answers.parquet --user ada
    agentfw serve sessions delete postgresql://db.example.org/agentfw --before 2026-08-01 --yes

This module is imported for --help, so each command imports what it needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentfw.errors import UsageError
from agentfw.printing.out import Out, counted

from ...command_options import json_option

if TYPE_CHECKING:
    from agentfw import Episode

    from .session_journal import Chosen

Command = TypeVar("Command", bound=Callable[..., Any])
_ROWS = 5000
"""Number of rows in a group of a Parquet file."""


@click.group()
def sessions() -> None:
    """Export or delete the sessions that gateways share.

    WHERE is what the gateways have as --sessions: a postgresql:// address, or a file.
    """


def _choosing(command: Command) -> Command:
    """Add the options that choose sessions."""
    for option in reversed(
        (
            click.option("--user", default="", help="Sessions of this user."),
            click.option("--key", "space", default="", metavar="NAME", help="Sessions that were led with this key."),
            click.option(
                "--before", type=click.DateTime(), metavar="TIME", help="Sessions that were last used before then."
            ),
        )
    ):
        command = option(command)
    return command


def _chosen(user: str, space: str, before: datetime | None) -> Chosen:
    from .session_journal import Chosen

    return Chosen(user, space, before.timestamp() if before else None)


@sessions.command()
@click.argument("where")
@click.argument("file", type=click.Path(path_type=Path))
@_choosing
@json_option
def export(where: str, file: Path, user: str, space: str, before: datetime | None, out: Out) -> None:
    """Write the answers in these sessions to the Parquet FILE, with their tokens and the feedback on them.

    All sessions, or those for which all the given options hold.
    """
    from .session_journal import SessionJournal

    journal = SessionJournal(where)
    try:
        with out.progress("exporting"):
            count = _write_parquet(journal.sessions(_chosen(user, space, before)), file)
    finally:
        journal.close()
    if out.json:
        out.data({"file": str(file), "answers": count})
    else:
        out.line(f"{file}   {counted(count, 'answer')}")


@sessions.command()
@click.argument("where")
@_choosing
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@json_option
def delete(where: str, user: str, space: str, before: datetime | None, yes: bool, out: Out) -> None:
    """Delete the sessions for which all the given options hold, with everything that was said in them.

    A session that is being answered stays. So does what gateways and trainings have of it in their own runs. This
    cannot be undone.
    """
    from .session_journal import SessionJournal

    if not (user or space or before):
        raise UsageError("nothing says which sessions", fix="use --user, --key or --before")
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("this can't be undone, and there is no terminal to confirm it on", fix="add --yes")
        click.confirm("Delete these sessions?", abort=True, err=True)
    journal = SessionJournal(where)
    try:
        deleted, left = journal.delete(_chosen(user, space, before))
    finally:
        journal.close()
    if out.json:
        out.data({"deleted": deleted, "in_use": left})
        return
    out.line(f"{counted(deleted, 'session')} deleted")
    if left:
        out.warning(f"{counted(left, 'session')} in use and not deleted; run the same command again later")


# -- Parquet -----------------------------------------------------------------------------------------------------------


def _write_parquet(episodes: Iterable[Episode], file: Path) -> int:
    """Write the answers of these sessions, each with its exact tokens and what was thought of it. Returns their number.

    The file is written in groups of rows, so there may be more than memory holds. It has its name when it is complete.
    """
    from agentfw.errors import MissingExtraError, StorageError, disk_fix
    from agentfw.runs import make_private

    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("writing Parquet", "parquet", module=error.name or "pyarrow") from None
    text, number = pyarrow.string(), pyarrow.int32()
    schema = pyarrow.schema(
        {
            "session": text,
            "user": text,
            "turn": number,
            "question": text,
            "answer": text,
            "version": text,
            "finish": text,
            "feedback": pyarrow.float64(),
            "correction": text,
            "prompt_ids": pyarrow.list_(number),
            "token_ids": pyarrow.list_(number),
            "logprobs": pyarrow.list_(pyarrow.float32()),
        }
    )
    rows, count = (row for episode in episodes for row in _rows(episode)), 0
    unfinished = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        make_private(unfinished)
        with parquet.ParquetWriter(unfinished, schema) as writer:
            while some := list(islice(rows, _ROWS)):
                writer.write_table(pyarrow.Table.from_pylist(some, schema))
                count += len(some)
        unfinished.replace(file)
    except OSError as error:
        raise StorageError(f"can't write {file}: {error.strerror or error}", fix=disk_fix(error)) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _rows(episode: Episode) -> Iterator[dict[str, Any]]:
    from ...rewards.measured import feedback_of

    newest = {turn: (value, correction) for turn, value, correction in feedback_of(episode)}
    for turn in episode.turns:
        # As in a training, what is said of the whole session holds for every answer, and corrects the last one.
        whole, corrected = newest.get(None, (None, ""))
        value, correction = newest.get(turn.index, (whole, corrected if turn is episode.turns[-1] else ""))
        asked = (episode.messages[place] for place in reversed(turn.shown))
        yield {
            "session": episode.task.query,
            "user": episode.task.user,
            "turn": turn.index,
            "question": next((one.content for one in asked if one.role == "user"), ""),
            "answer": turn.text,
            "version": turn.version,
            "finish": turn.finish,
            "feedback": value,
            "correction": correction,
            "prompt_ids": turn.prompt_ids,
            "token_ids": turn.token_ids,
            "logprobs": turn.logprobs,
        }
