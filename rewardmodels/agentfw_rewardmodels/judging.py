"""What judges share: how others' words are shown to a model, how its answer is read, and where judgements are kept.

A bad answer is data, not an exception: the judge is told what was wrong and asked again, and after that its question
counts as failed. Exceptions of `ask` pass through, because an unreachable server isn't a bad answer. Of the JSON in an
answer the last value comes first, because what a model says last is what it has come to.

    >>> list(json_values('Here you are: {"opportunities": [],}'))
    [({'opportunities': []}, True)]
    >>> Usage(prompt=100, sampled=5) + Usage(prompt=20, cached=15, sampled=7)
    Usage(prompt=120, cached=None, sampled=12, cost=0.0)

Judgements are stored on disk, under a digest of the question, so that a question is asked only once.

    >>> with JudgementCache(":memory:") as cache:
    ...     cache.put("3f2a", "tea-judge", [Mark(0.5, "lukewarm")])
    ...     cache.get("3f2a", 1), cache.get("3f2a", 2)
    ((Mark(score=0.5, why='lukewarm'),), None)
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass, field
from hashlib import blake2b
from pathlib import Path
from weakref import WeakValueDictionary

from .errors import BadInputError, FileRefusedError, StorageError

logger = logging.getLogger(__name__)

LONGEST = 20_000
"""Default maximum of characters shown of an attempt, and of what all attempts share."""

_LONGEST = 100_000  # characters of an answer that are read
_ATTEMPTS = 200  # places at which a value may begin before the text counts as holding none
_REPAIRS = 8  # places at which repairing is tried
_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.S)
_TYPOGRAPHY = str.maketrans("“”„‟″", '"' * 5)
_OPENING = re.compile(r"[{[]")
_COMMA = re.compile(r",(?=\s*[\]}])")
_decode = json.JSONDecoder().raw_decode


def without_thought(text: str) -> str:
    """The text after the last closing tag of a thought, cut to a length that is safe to read."""
    return _THOUGHT.sub("", text[:_LONGEST])


def json_values(text: str) -> Iterator[tuple[object, bool]]:
    """The objects and lists in a text that aren't inside of others, the last first, and whether they were repaired."""
    return reversed(list(_values(without_thought(text))))


def _values(text: str) -> Iterator[tuple[object, bool]]:
    position, repairs, repaired = 0, 0, False
    for _ in range(_ATTEMPTS):
        if not (opening := _OPENING.search(text, position)):
            return
        start = opening.start()
        try:
            value, position = _decode(text, start)
        except RecursionError:
            return
        except ValueError:
            # Repaired before looking further in, or a part of a damaged answer would pass for the answer.
            candidate = _repaired(text[start:]) if repairs < _REPAIRS else ""
            repairs += 1
            try:
                value, position = _decode(candidate)
            except (ValueError, RecursionError):
                position = start + 1
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
    """Return a text between tags with a key, so that nothing in it can close them."""
    opening = f"{name}-{key}" if number is None else f'{name}-{key} id="{number}"'
    return f"<{opening}>\n{text}\n</{name}-{key}>"


def digest_of(text: str) -> str:
    """Return a digest, of which a part is the key of tags."""
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
        with ExitStack() as stack:
            stack.callback(self._connection.close)
            run = self._connection.execute
            try:
                # Whose file it is, and the table in a new one. Several processes may ask at once.
                run("BEGIN IMMEDIATE")
                (application,) = run("PRAGMA application_id").fetchone()
                if application == 0 and not run("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                    run(_SCHEMA)
                    run(f"PRAGMA application_id = {_APPLICATION}")
                    application = _APPLICATION
                run("COMMIT")
                if application != _APPLICATION:
                    raise _refused(f"{path} is a database of another program")
            except sqlite3.OperationalError as error:
                raise StorageError(f"{path} can't be used: {error}", fix="choose another file for the cache") from None
            except sqlite3.DatabaseError as error:
                raise _refused(f"{path} is not a file of judgements: {error}") from None
            stack.pop_all()

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

    def __exit__(self, *error: object) -> None:
        self.close()


def _refused(message: str) -> FileRefusedError:
    return FileRefusedError(message, fix="choose another file for the cache; this one is unchanged")


class Unusable(Exception):
    """Raised for an answer that can't be used. The message is written for the judge."""


class JudgeRefused(Exception):
    """Raise it from `ask` if the model rejects this question for good, for example because it is too long."""


Ask = Callable[[Sequence[Message]], Awaitable[str | Answer]]
"""Any model: takes messages with `role` and `content`, returns a text. An `Answer` adds how many tokens it took."""
Read = Callable[[object], tuple[Mark, ...]]  # the marks in a JSON value of an answer; raises Unusable
NO_USAGE = Usage(0, 0, 0)
"""The usage where nothing was asked."""
_Locks = WeakValueDictionary[str, asyncio.Lock]
"""One per question in progress, so that an equal question waits for its answer."""


class Judge:
    """A model that is asked until its answer can be used, each question once."""

    def __init__(
        self,
        ask: Ask,
        *,
        name: str,
        cache: str | Path = ":memory:",
        parallel: int = 8,
        retries: int = 2,
        longest: int = LONGEST,
    ) -> None:
        if not name:
            raise BadInputError("the judge has no name", fix="pass a name; answers are cached under it")
        if parallel < 1 or retries < 0 or longest < 2:
            wrong = f"invalid settings: parallel {parallel}, retries {retries}, longest {longest}"
            raise BadInputError(wrong, fix="use at least 1 for parallel, 0 for retries and 2 for longest")
        self.name, self.parallel, self.retries, self.longest = name, parallel, retries, longest
        self.usage = NO_USAGE
        """Tokens of all questions asked so far. Cached answers add nothing."""
        self._ask, self._cache = ask, JudgementCache(cache)
        self._loops: dict[asyncio.AbstractEventLoop, tuple[asyncio.Semaphore, _Locks]] = {}
        self._answered = False

    def close(self) -> None:
        self._cache.close()

    async def marks(
        self, messages: Sequence[Message], count: int, read: Read
    ) -> tuple[tuple[Mark, ...] | None, str, Usage]:
        """The `count` marks of a question, why there are none, and the tokens of what was asked for them."""
        key, running = self._key(messages), asyncio.get_running_loop()
        if running not in self._loops:
            for other in [other for other in self._loops if other.is_closed()]:
                del self._loops[other]
            self._loops[running] = asyncio.Semaphore(self.parallel), WeakValueDictionary()
        slots, locks = self._loops[running]
        async with locks.setdefault(key, asyncio.Lock()):
            try:
                marks = self._cache.get(key, count)
            except sqlite3.Error as error:
                logger.warning("cached judgements can't be read, so the judge is asked again: %s", error)
                marks = None
            if marks is not None:
                self._answered = True
                return marks, "", NO_USAGE
            async with slots:
                marks, failure, usage = await self._ask_until_usable(messages, read)
            self.usage += usage
            if marks is None:
                logger.warning("%s could not judge: %s", self.name, failure)
            else:
                try:
                    self._cache.put(key, self.name, marks)
                except sqlite3.Error as error:
                    # The marks are valid even if they can't be cached.
                    logger.warning("a judgement could not be cached: %s", error)
        return marks, failure, usage

    async def _ask_until_usable(
        self, question: Sequence[Message], read: Read
    ) -> tuple[tuple[Mark, ...] | None, str, Usage]:
        messages, failure, usage = list(question), "", NO_USAGE
        for _ in range(self.retries + 1):
            try:
                given = await self._ask(messages)
            except JudgeRefused as refusal:
                # A judge that has never answered is misconfigured. Raise, instead of failing every question.
                if not self._answered:
                    raise
                return None, str(refusal), usage
            self._answered = True
            answer = given if isinstance(given, Answer) else Answer(given)
            usage += answer.usage
            failure = "it contains no JSON object"
            for value, _ in json_values(answer.text):
                try:
                    return read(value), "", usage
                except Unusable as problem:
                    failure = str(problem)
            request = f"That can't be used: {failure}. Answer with the JSON object alone."
            said = {"role": "assistant", "content": answer.text[:2000]}
            messages = [*question, said, {"role": "user", "content": request}]
        return None, failure, usage

    def _key(self, messages: Sequence[Message]) -> str:
        digest = blake2b(digest_size=20)
        for part in (self.name, *(str(message["content"]) for message in messages)):
            data = part.encode("utf-8", "replace")
            digest.update(f"{len(data)}:".encode() + data)
        return digest.hexdigest()
