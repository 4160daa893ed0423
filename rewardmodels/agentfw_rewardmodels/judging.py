"""What judges share: how others' words are shown to a model, how its answer is read, and where judgements are kept.

What others wrote is shown so that none of it can be taken for the question itself. JSON is read out of whatever the
model wrote: after a thought, in a fence, with small mistakes. The last value of a text comes first, because what a
model says last is what it has come to.

    >>> list(json_values('Here you are: {"opportunities": [],}'))
    [({'opportunities': []}, True)]
    >>> Usage(prompt=100, sampled=5) + Usage(prompt=20, cached=15, sampled=7)
    Usage(prompt=120, cached=None, sampled=12, cost=0.0)

Judgements are stored on disk, so that the same question to the same judge is asked only once. Only scores and reasons
are stored, under a digest of the question. A damaged entry counts as missing.

    >>> with JudgementCache(":memory:") as cache:
    ...     cache.put("3f2a", "tea-judge", [Mark(0.5, "lukewarm")])
    ...     cache.get("3f2a", 1), cache.get("3f2a", 2)
    ((Mark(score=0.5, why='lukewarm'),), None)
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from hashlib import blake2b
from pathlib import Path
from types import TracebackType

from .errors import FileRefusedError, StorageError

_LONGEST = 100_000
"""Characters of an answer that are read."""
_ATTEMPTS = 200
"""Places at which a value may begin before the text counts as holding none."""
_REPAIRS = 8
"""Places at which repairing is tried."""
_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.S)
_TYPOGRAPHY = str.maketrans("“”„‟″", '"' * 5)
_COMMA = re.compile(r",(?=\s*[\]}])")
_decode = json.JSONDecoder().raw_decode


def without_thought(text: str) -> str:
    """The text after the last closing tag of a thought, cut to a length that is safe to read."""
    return _THOUGHT.sub("", text[:_LONGEST])


def json_values(text: str) -> Iterator[tuple[object, bool]]:
    """The objects and lists in a text, the last one first, and whether they had to be repaired.

    Values inside of others are not repeated.
    """
    return reversed(list(_values(without_thought(text))))


def _values(text: str) -> Iterator[tuple[object, bool]]:
    position, repairs, repaired = 0, 0, False
    for _ in range(_ATTEMPTS):
        starts = [place for place in (text.find("{", position), text.find("[", position)) if place >= 0]
        if not starts:
            return
        try:
            value, position = _decode(text, min(starts))
        except RecursionError:
            return
        except ValueError:
            # Repaired before looking further in, or a part of a damaged answer would pass for the answer.
            candidate = _repaired(text[min(starts) :]) if repairs < _REPAIRS else ""
            repairs += 1
            try:
                value, position = _decode(candidate)
            except (ValueError, RecursionError):
                position = min(starts) + 1
                continue
            text, repaired = candidate, True
        yield value, repaired


def _repaired(text: str) -> str:
    """The text with straight quotes, without commas before a closing bracket, and with open brackets closed."""
    text, closing, quoted, escaped = text.translate(_TYPOGRAPHY), list[str](), False, False
    for letter in text:
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = letter == "\\", letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in "{[":
            closing.append("}" if letter == "{" else "]")
        elif letter in "}]" and closing and closing[-1] == letter:
            closing.pop()
    return _COMMA.sub("", text.rstrip().removesuffix("```").rstrip() + "".join(reversed(closing)))


Message = Mapping[str, object]
"""One message of a conversation: `role`, `content`, and other keys such as calls."""


def message_line(message: Message) -> str:
    """Return a message as one line of JSON. Values that JSON can't hold become strings."""
    rest = {name: value for name, value in message.items() if name not in ("role", "content")}
    shown = {"role": message.get("role", ""), "content": message.get("content", ""), **rest}
    return without_surrogates(json.dumps(shown, ensure_ascii=False, default=str))


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which servers reject."""
    return text.encode("utf-8", "replace").decode("utf-8")


def cut_in_the_middle(text: str, longest: int) -> str:
    """Keep only the start and the end of a long text."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters are left out here ...]\n{text[-half:]}"


def tagged(name: str, key: str, text: str, number: int | None = None) -> str:
    opening = f"{name}-{key}" if number is None else f'{name}-{key} id="{number}"'
    return f"<{opening}>\n{text}\n</{name}-{key}>"


def digest_of(text: str) -> str:
    return blake2b(text.encode("utf-8"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Usage:
    """Numbers of tokens, and what they cost. None means unknown, and a sum with an unknown number is unknown too."""

    prompt: int | None = None
    """Tokens that were read, including cached ones."""
    cached: int | None = None
    """Prompt tokens that the server had cached from earlier requests."""
    sampled: int | None = None
    """Tokens that were generated."""
    cost: float | None = 0.0
    """What they cost, in any currency."""

    def __add__(self, other: Usage) -> Usage:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Usage(*(None if one is None or more is None else one + more for one, more in pairs))


@dataclass(frozen=True, slots=True)
class Mark:
    """The score of one attempt, and the reason for it."""

    score: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A text and its usage."""

    text: str
    usage: Usage = field(default_factory=Usage)


_SCHEMA = "CREATE TABLE judgement (question TEXT PRIMARY KEY, judge TEXT NOT NULL, marks TEXT NOT NULL) STRICT"
_VERSION = 1
_APPLICATION = 0x4A444730  # "JDG0": marks our files


class JudgementCache:
    """A file of judgements. `:memory:` keeps them as long as this process. Safe for threads and processes."""

    def __init__(self, path: str | Path) -> None:
        self._lock = threading.Lock()
        if str(path) != ":memory:":
            # Only its owner can read what people said. SQLite's other files get its mode.
            with suppress(OSError):
                os.close(os.open(path, os.O_CREAT | os.O_RDONLY, 0o600))
        try:
            self._connection = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
        except sqlite3.Error as error:
            raise StorageError(f"{path} can't be opened: {error}", fix="choose another file for the cache") from None
        try:
            self._prepare(path)
        except sqlite3.OperationalError as error:
            self._connection.close()
            raise StorageError(f"{path} can't be used: {error}", fix="choose another file for the cache") from None
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise _refused(f"{path} is not a file of judgements: {error}") from None
        except FileRefusedError:
            self._connection.close()
            raise

    def get(self, question: str, count: int) -> tuple[Mark, ...] | None:
        """Return the marks of a question, if they are stored and there are `count` of them."""
        with self._lock:
            row = self._connection.execute("SELECT marks FROM judgement WHERE question = ?", (question,)).fetchone()
        try:
            marks = tuple(Mark(float(score), str(why)) for score, why in json.loads(row[0]))
        except (TypeError, ValueError):
            return None
        return marks if len(marks) == count and all(0 <= mark.score <= 1 for mark in marks) else None

    def put(self, question: str, judge: str, marks: Sequence[Mark]) -> None:
        """Store the marks of a question. They are on disk when this returns."""
        text = json.dumps([[mark.score, mark.why] for mark in marks])
        with self._lock:
            self._connection.execute("INSERT OR REPLACE INTO judgement VALUES (?, ?, ?)", (question, judge, text))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> JudgementCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self, path: str | Path) -> None:
        """Check whose file it is, and create the table in a new one. Several processes may do so at once."""
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        application, version = (run(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        if application == 0 and not run("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            run(_SCHEMA)
            run(f"PRAGMA application_id = {_APPLICATION}")
            run(f"PRAGMA user_version = {_VERSION}")
            application, version = _APPLICATION, _VERSION
        run("COMMIT")
        if application != _APPLICATION:
            raise _refused(f"{path} is a database of another program")
        if version > _VERSION:
            raise _refused(f"{path} was written by a newer agentfw (format {version}, this version reads {_VERSION})")
        self._write_ahead()
        run("PRAGMA synchronous = FULL")

    def _write_ahead(self) -> None:
        """Turn on the write-ahead log. SQLite's timeout doesn't apply here, so wait for other processes."""
        for pause in range(100):
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if pause == 99 or not ("locked" in str(error) or "busy" in str(error)):
                    raise
                time.sleep(0.01 * (pause + 1))


def _refused(message: str) -> FileRefusedError:
    return FileRefusedError(message, fix="choose another file for the cache; this one is unchanged")
