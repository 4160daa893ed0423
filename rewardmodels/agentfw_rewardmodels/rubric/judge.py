"""The judge: groups of attempts in, marks out; many at once, each question asked once.

The one rule: what a model answers is data. An answer that can't be used is asked for again with what was wrong; after
that the group counts as failed and each of its attempts gets `FALLBACK`: equal marks, of which nothing is learned.

    >>> import asyncio
    >>> async def ask(messages):
    ...     return '{"scores": [{"id": 1, "why": "warm", "score": 0.9}, {"id": 2, "why": "cold", "score": 0.2}]}'
    >>> judge = RubricJudge(ask, name="tea-judge")
    >>> group = [[{"role": "assistant", "content": drink}] for drink in ("tea", "coffee", "tea")]
    >>> judgement = asyncio.run(judge.judge(group))
    >>> judgement.scores[0] == judgement.scores[2], sorted(set(judgement.scores)), judgement.failure
    (True, [0.2, 0.9], '')

What `ask` raises passes through, because a server that is gone is no bad answer; whoever catches it can give the group
again. Only `JudgeRefused` is different: this question can't be answered, however often it is asked.
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
from agentfw_rewardmodels.rubric.answer import Mark, Unusable, read_marks
from agentfw_rewardmodels.rubric.cache import JudgementCache
from agentfw_rewardmodels.rubric.question import LONGEST, Message, Question, make_question

__all__ = ["FALLBACK", "Ask", "JudgeRefused", "Judgement", "RubricJudge", "Tally"]

logger = logging.getLogger(__name__)

Ask = Callable[[Sequence[Message]], Awaitable[str]]
"""Any model: messages with `role` and `content` in, a text out."""

FALLBACK = 0.5
"""What each attempt of a group gets that couldn't be judged."""


class JudgeRefused(Exception):
    """To be raised by `ask`: the judge takes this question never, because it is too long, say."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a group got, in its order."""

    scores: tuple[float, ...] = ()
    reasons: tuple[str, ...] = ()
    """One sentence for each attempt, as far as the judge gave them."""
    failure: str = ""
    """Why there are no marks, where there are none; then every score is `FALLBACK`."""


@dataclass(slots=True)
class Tally:
    """What a judge has done so far."""

    groups: int = 0
    cached: int = 0
    """Groups whose marks were there already."""
    asked: int = 0
    """Questions that were sent, repetitions included."""
    mended: int = 0
    """Groups whose marks were read from broken JSON."""
    repeated: int = 0
    """Questions that were sent again because the answer couldn't be used."""
    failed: int = 0
    """Groups without marks in the end."""


@dataclass(slots=True)
class _Loop:
    """What belongs to one event loop."""

    room: asyncio.Semaphore
    locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """One for each question that is being asked, so that its twin waits for the answer."""


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
        """`name` says which model it is, in which version: its answers are kept under this name.

        `rules` are what counts besides the general rubric; `longest` are the characters of an attempt that are shown.
        """
        if not name:
            raise BadInputError("the judge has no name", fix="give it one: its answers are kept under it")
        if parallel < 1 or retries < 0 or longest < 2:
            raise BadInputError(
                f"parallel {parallel}, retries {retries} and longest {longest} can't be",
                fix="parallel is at least 1, retries at least 0, longest at least 2",
            )
        self.name, self.rules, self.parallel = name, tuple(rules), parallel
        self.retries, self.longest, self.tally = retries, longest, Tally()
        self._ask, self._cache = ask, JudgementCache(cache)
        self._loops: dict[asyncio.AbstractEventLoop, _Loop] = {}
        self._answered = False

    async def judge(self, attempts: Sequence[Sequence[Message]]) -> Judgement:
        """The marks of one group. A group of one is judged by itself; an empty one has none."""
        if not attempts:
            return Judgement()
        question = make_question(attempts, self.rules, longest=self.longest)
        key = self._key(question)
        loop = self._loop()
        self.tally.groups += 1
        async with loop.locks.setdefault(key, asyncio.Lock()):
            marks, failure = self._kept(key, question.count), ""
            if marks is not None:
                self.tally.cached += 1
            else:
                async with loop.room:
                    marks, failure = await self._asked(question)
                if failure:
                    self.tally.failed += 1
                    logger.warning("%s could not judge a group of %d: %s", self.name, len(attempts), failure)
                else:
                    self._keep(key, marks)
        return Judgement(
            tuple(marks[place - 1].score for place in question.places),
            tuple(marks[place - 1].why for place in question.places),
            failure,
        )

    async def judge_all(self, groups: Sequence[Sequence[Sequence[Message]]]) -> list[Judgement]:
        """The marks of many groups, at most `parallel` of them asked at once."""
        return list(await asyncio.gather(*map(self.judge, groups)))

    def close(self) -> None:
        self._cache.close()

    async def _asked(self, question: Question) -> tuple[tuple[Mark, ...], str]:
        """The marks, or why there are none."""
        messages: list[Message] = list(question.messages)
        for again in range(self.retries + 1):
            self.tally.asked += 1
            self.tally.repeated += bool(again)
            try:
                text = await self._ask(messages)
            except JudgeRefused as refusal:
                # A judge that has never answered anything is set up wrongly: its fallbacks would look like a run.
                if not self._answered:
                    raise
                return (Mark(FALLBACK),) * question.count, str(refusal)
            try:
                marks, mended = read_marks(text, question.count)
            except Unusable as problem:
                failure = str(problem)
            else:
                self._answered = True
                self.tally.mended += mended
                return marks, ""
            self._answered = True
            wish = f"That can't be used: {failure}. Answer with the JSON object alone."
            messages = [
                *question.messages,
                {"role": "assistant", "content": text[:2000]},
                {"role": "user", "content": wish},
            ]
        return (Mark(FALLBACK),) * question.count, failure

    def _key(self, question: Question) -> str:
        digest = blake2b(digest_size=20)
        for part in (self.name, *(message["content"] for message in question.messages)):
            data = part.encode("utf-8", "replace")
            digest.update(f"{len(data)}:".encode() + data)
        return digest.hexdigest()

    def _kept(self, key: str, count: int) -> tuple[Mark, ...] | None:
        try:
            marks = self._cache.get(key, count)
        except sqlite3.Error as error:
            logger.warning("judgements can't be read, and are made anew: %s", error)
            return None
        self._answered = self._answered or marks is not None
        return marks

    def _keep(self, key: str, marks: Sequence[Mark]) -> None:
        try:
            self._cache.put(key, self.name, marks)
        except sqlite3.Error as error:
            # The marks are good all the same.
            logger.warning("a judgement could not be kept: %s", error)

    def _loop(self) -> _Loop:
        running = asyncio.get_running_loop()
        if running not in self._loops:
            for other in [other for other in self._loops if other.is_closed()]:
                del self._loops[other]
            self._loops[running] = _Loop(asyncio.Semaphore(self.parallel))
        return self._loops[running]
