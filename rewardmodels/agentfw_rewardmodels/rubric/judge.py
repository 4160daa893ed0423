"""The rubric judge: takes groups of attempts and returns their scores, asking many questions at once.

    >>> import asyncio
    >>> async def ask(messages):
    ...     return '{"scores": [{"id": 1, "why": "warm", "score": 0.9}, {"id": 2, "why": "cold", "score": 0.2}]}'
    >>> judge = RubricJudge(ask, name="tea-judge")
    >>> group = [[{"role": "assistant", "content": drink}] for drink in ("tea", "coffee", "tea")]
    >>> judgement = asyncio.run(judge.judge(group))
    >>> judgement.scores[0] == judgement.scores[2], sorted(set(judgement.scores)), judgement.failure
    (True, [0.2, 0.9], '')

A bad answer is data, not an exception. The judge is told what was wrong and asked again. If that doesn't help, the
group counts as failed and each attempt gets `FALLBACK`. Equal scores teach an optimizer nothing.

Exceptions of `ask` pass through, because an unreachable server isn't a bad answer. The caller can repeat the group.
Only `JudgeRefused` counts as a failure: this question can't be answered, however often it is asked.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from weakref import WeakValueDictionary

from agentfw_rewardmodels.errors import BadInputError
from agentfw_rewardmodels.rubric.answer import Answer, Usage
from agentfw_rewardmodels.rubric.cache import JudgementCache
from agentfw_rewardmodels.rubric.marks import Mark, Unusable, read_marks
from agentfw_rewardmodels.rubric.question import LONGEST, Message, Question, make_question

__all__ = ["FALLBACK", "Ask", "JudgeRefused", "Judgement", "RubricJudge", "Tally"]

logger = logging.getLogger(__name__)

Ask = Callable[[Sequence[Message]], Awaitable[str | Answer]]
"""Any model: takes messages with `role` and `content`, returns a text. An `Answer` adds how many tokens it took."""

FALLBACK = 0.5
"""The score of each attempt in a group that couldn't be judged."""
_NO_USAGE = Usage(0, 0, 0)


class JudgeRefused(Exception):
    """Raise it from `ask` if the model rejects this question for good, for example because it is too long."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The scores of a group, in its order."""

    scores: tuple[float, ...] = ()
    reasons: tuple[str, ...] = ()
    """One sentence per attempt, where the judge gave one."""
    failure: str = ""
    """Why the group couldn't be judged, or empty. If it isn't empty, every score is `FALLBACK`."""
    usage: Usage = _NO_USAGE
    """Tokens of the questions asked about this group. 0 if the scores came from the cache."""


@dataclass(slots=True)
class Tally:
    """Counts of what a judge has done so far."""

    groups: int = 0
    cached: int = 0
    """Groups whose scores came from the cache."""
    asked: int = 0
    """Questions sent, including repeated ones."""
    repaired: int = 0
    """Groups whose scores were read from repaired JSON."""
    repeated: int = 0
    """Questions sent again because the answer was unusable."""
    failed: int = 0
    """Groups that couldn't be judged."""


@dataclass(slots=True)
class _Loop:
    """The state of one event loop."""

    slots: asyncio.Semaphore
    locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """One lock per question in progress, so that an equal question waits for its answer."""


class RubricJudge:
    """A judge with its rubric and its cache."""

    def __init__(
        self,
        ask: Ask,
        *,
        name: str,
        rules: Sequence[str] = (),
        cache: str | Path = ":memory:",
        parallel: int = 8,
        retries: int = 2,
        longest: int = LONGEST,
    ) -> None:
        """Create a judge.

        `name` identifies the model and its version. Answers are cached under it. `rules` are added to the general
        rubric. `longest` is the maximum number of characters shown of an attempt.
        """
        if not name:
            raise BadInputError("the judge has no name", fix="pass a name; answers are cached under it")
        if parallel < 1 or retries < 0 or longest < 2:
            raise BadInputError(
                f"invalid settings: parallel {parallel}, retries {retries}, longest {longest}",
                fix="use at least 1 for parallel, 0 for retries and 2 for longest",
            )
        self.name, self.rules, self.parallel = name, tuple(rules), parallel
        self.retries, self.longest, self.tally = retries, longest, Tally()
        self.usage = Usage(0, 0, 0)
        """Tokens of all questions asked so far. Cached answers add nothing."""
        self._ask, self._cache = ask, JudgementCache(cache)
        self._loops: dict[asyncio.AbstractEventLoop, _Loop] = {}
        self._answered = False

    async def judge(self, attempts: Sequence[Sequence[Message]]) -> Judgement:
        """Judge one group. A single attempt is judged on its own, and an empty group has no scores."""
        if not attempts:
            return Judgement()
        question = make_question(attempts, self.rules, longest=self.longest)
        key = self._key(question)
        loop = self._loop()
        self.tally.groups += 1
        async with loop.locks.setdefault(key, asyncio.Lock()):
            marks, failure, usage = self._cached(key, question.count), "", _NO_USAGE
            if marks is not None:
                self.tally.cached += 1
            else:
                async with loop.slots:
                    marks, failure, usage = await self._asked(question)
                self.usage += usage
                if failure:
                    self.tally.failed += 1
                    logger.warning("%s could not judge a group of %d: %s", self.name, len(attempts), failure)
                else:
                    self._store(key, marks)
        return _judgement(question, marks, failure, usage)

    def recall(self, attempts: Sequence[Sequence[Message]]) -> Judgement | None:
        """The judgement of a group if it is in the cache. Nothing is asked."""
        if not attempts:
            return Judgement()
        question = make_question(attempts, self.rules, longest=self.longest)
        marks = self._cached(self._key(question), question.count)
        return None if marks is None else _judgement(question, marks)

    async def judge_all(self, groups: Sequence[Sequence[Sequence[Message]]]) -> list[Judgement]:
        """Judge many groups, with at most `parallel` questions in progress."""
        return list(await asyncio.gather(*map(self.judge, groups)))

    def close(self) -> None:
        self._cache.close()

    async def _asked(self, question: Question) -> tuple[tuple[Mark, ...], str, Usage]:
        """Return the marks, the reason for a failure or an empty string, and the tokens of all questions."""
        messages, usage = list[Message](question.messages), _NO_USAGE
        for again in range(self.retries + 1):
            self.tally.asked += 1
            self.tally.repeated += bool(again)
            try:
                given = await self._ask(messages)
            except JudgeRefused as refusal:
                # A judge that has never answered is misconfigured. Raise, instead of giving every group the fallback.
                if not self._answered:
                    raise
                return (Mark(FALLBACK),) * question.count, str(refusal), usage
            answer = given if isinstance(given, Answer) else Answer(given)
            usage += answer.usage
            try:
                marks, repaired = read_marks(answer.text, question.count)
            except Unusable as problem:
                failure = str(problem)
            else:
                self._answered = True
                self.tally.repaired += repaired
                return marks, "", usage
            self._answered = True
            request = f"That can't be used: {failure}. Answer with the JSON object alone."
            messages = [
                *question.messages,
                {"role": "assistant", "content": answer.text[:2000]},
                {"role": "user", "content": request},
            ]
        return (Mark(FALLBACK),) * question.count, failure, usage

    def _key(self, question: Question) -> str:
        digest = blake2b(digest_size=20)
        for part in (self.name, *(message["content"] for message in question.messages)):
            data = part.encode("utf-8", "replace")
            digest.update(f"{len(data)}:".encode() + data)
        return digest.hexdigest()

    def _cached(self, key: str, count: int) -> tuple[Mark, ...] | None:
        try:
            marks = self._cache.get(key, count)
        except sqlite3.Error as error:
            logger.warning("cached judgements can't be read, so the judge is asked again: %s", error)
            return None
        self._answered = self._answered or marks is not None
        return marks

    def _store(self, key: str, marks: Sequence[Mark]) -> None:
        try:
            self._cache.put(key, self.name, marks)
        except sqlite3.Error as error:
            # The marks are valid even if they can't be cached.
            logger.warning("a judgement could not be cached: %s", error)

    def _loop(self) -> _Loop:
        running = asyncio.get_running_loop()
        if running not in self._loops:
            for other in [other for other in self._loops if other.is_closed()]:
                del self._loops[other]
            self._loops[running] = _Loop(asyncio.Semaphore(self.parallel))
        return self._loops[running]


def _judgement(question: Question, marks: Sequence[Mark], failure: str = "", usage: Usage = _NO_USAGE) -> Judgement:
    """The marks in the order of the group."""
    return Judgement(
        tuple(marks[place - 1].score for place in question.places),
        tuple(marks[place - 1].why for place in question.places),
        failure,
        usage,
    )
