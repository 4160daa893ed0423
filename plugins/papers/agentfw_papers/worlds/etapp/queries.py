"""How a parameter of a tool selects rows of a table: by its name.

A parameter is about the column whose name has the same words, such as `sender` or `start_time`. On times, `start` and
`end` are bounds. A parameter such as `query` is searched for in all columns, by BM25. One such as `limit` is a number
of rows.

>>> rows = [{"title": "Blue", "artist": "Ana"}, {"title": "Red", "artist": "Bo"}]
>>> select(rows, {"artist": "bo"}, None)
([{'title': 'Red', 'artist': 'Bo'}], [])
>>> select(rows, {"colour": "blue"}, None)[1]
['colour']
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .reading import parse_time
from .schemas import words_of

Row = Mapping[str, str]
_TIMES = ("start_time", "alarm_time", "timestamp", "date", "time")
_FREE = {"query", "keyword", "keywords", "text", "question", "search", "topic", "term", "entity"}
_LIMITS = {"limit", "top", "k", "number", "num", "count", "max", "n"}
_SINCE, _UNTIL = {"start", "from", "begin", "after", "since"}, {"end", "to", "until", "before"}
_SAME = {
    "singer": "artist",
    "name": "title",
    "song": "title",
    "recipient": "receiver",
    "to": "receiver",
    "genre": "type",
}
_NUMBER = re.compile("[0-9]{1,9}")
_DAY = len("2024-09-06")
_FOUND = 10


def time_of(row: Row) -> datetime | None:
    """The time of a row, if it has one."""
    for name in _TIMES:
        if row.get(name):
            return parse_time(row[name])
    return None


def column_of(parameter: str, columns: Sequence[str]) -> str | None:
    """The column that a parameter is about."""
    wanted = {_SAME.get(word, word).rstrip("s") for word in words_of(parameter)}
    best, most = None, 0
    for column in columns:
        words = {word.rstrip("s") for word in words_of(column)}
        alike = len(wanted & words) * 10 - len(wanted ^ words)
        if wanted & words and (best is None or alike > most):
            best, most = column, alike
    return best


def select(rows: Sequence[Row], arguments: Mapping[str, Any], now: datetime | None) -> tuple[list[Row], list[str]]:
    """The rows that the arguments select, and the arguments that select nothing."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    found, unused, limit = list(rows), [], None
    for name, value in arguments.items():
        words = set(words_of(name))
        column = column_of(name, columns)
        bound = parse_time(value) if any(time in columns for time in _TIMES) else None
        if value in (None, "", []):
            continue
        if bound is not None and words & (_SINCE | _UNTIL):
            after = bool(words & _SINCE)
            if not after and len(str(value).strip()) == _DAY:  # the last day is part of it
                bound = datetime.combine(bound, datetime.max.time())
            found = [row for row in found if (time := time_of(row)) and (time >= bound if after else time <= bound)]
        elif column is not None:
            asked = str(value).casefold().strip()
            found = [row for row in found if asked in str(row.get(column, "")).casefold()]
        elif words & _LIMITS and _NUMBER.fullmatch(str(value)):
            limit = int(value)
        elif words & _FREE:
            found = search(found, str(value))
        else:
            unused.append(name)
    return found[:limit], unused


def search(rows: Sequence[Row], query: str, most: int = _FOUND) -> list[Row]:
    """The rows whose words fit a query best."""
    from agentfw_memory import WordIndex

    index = WordIndex()
    for number, row in enumerate(rows):
        index.put(number, " ".join(map(str, row.values())))
    question = index.question(query, None)
    best = question.best(most)
    return [
        rows[number] for number, score in zip(best.tolist(), question.scores(best).tolist(), strict=True) if score > 0
    ]
