"""Writes recorded sessions to a Parquet file: a row for each answer, with its exact tokens and what was thought of it.

write_parquet(journal.sessions(Chosen()), Path("answers.parquet"))

The file is written in groups of rows, so there may be more than memory holds. It has its name when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from agentfw import Episode
from agentfw.errors import MissingExtraError, StorageError, disk_fix
from agentfw.runs import make_private

from ...rewards.measured import feedback_of

_ROWS = 5000
"""Number of rows in a group."""


def write_parquet(episodes: Iterable[Episode], file: Path) -> int:
    """Write the answers of these sessions. Returns their number."""
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
            for some in _batches(rows):
                writer.write_table(pyarrow.Table.from_pylist(some, schema))
                count += len(some)
        unfinished.replace(file)
    except OSError as error:
        raise StorageError(f"can't write {file}: {error.strerror or error}", fix=disk_fix(error)) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _rows(episode: Episode) -> Iterator[dict[str, Any]]:
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


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while some := list(islice(rows, _ROWS)):
        yield some
