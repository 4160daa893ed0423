"""Lets the memories of a live run hear what its users say, behind the answers.

A session records what its user has said before the policy is asked. When the answer is recorded too, the memories hear
it: in order for each user, of several users side by side. What an earlier process didn't come to is heard at the next
start, because `heard.jsonl` has what was heard, what that took, and of whom everything was forgotten.

    hearing = Hearing(memories, journal)
    hearing.take(session.episode)
    await hearing.finish()
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..boundary.crossing import GuardedMemory
from ..episode import Episode, Event
from ..errors import AgentfwError
from ..memory import Saying
from .records.journal import Journal

logger = logging.getLogger(__name__)

_AT_ONCE = 4
"""Number of users who are heard at the same time. Whoever waits for a recollection waits for no more than these."""


class Hearing:
    """What is said, until it was heard."""

    def __init__(
        self, memories: Sequence[GuardedMemory], journal: Journal, run: str, lines: Iterable[dict[str, Any]]
    ) -> None:
        """`lines` are those of the journal."""
        self._memories, self._journal, self._run = memories, journal, run
        self._heard, self.forgotten = set[str](), dict[str, int]()
        """The last session of each user that nothing is learned from, because they were forgotten after it began."""
        self._forgotten_at = dict[str, float]()
        for line in lines:
            if "heard" in line:
                self._heard.add(line["heard"])
            else:
                self.forgotten[line["forgotten"]], self._forgotten_at[line["forgotten"]] = line["session"], line["at"]
        self._taken = dict[str, int]()
        """Number of events of each session that were looked at."""
        self._waiting = dict[str, deque[Saying]]()
        self._workers = dict[str, asyncio.Task[None]]()
        self._places = asyncio.Semaphore(_AT_ONCE)

    def waiting(self, user: str | None = None) -> int:
        """Number of sayings that were not heard yet, of one user or of all."""
        return sum(len(line) for whose, line in self._waiting.items() if user in (None, whose))

    def take(self, episode: Episode) -> None:
        """Let the memories hear what is new in a session."""
        if not any(memory.overrides("hear") for memory in self._memories):
            return
        first = self._taken.get(episode.id, 0)
        self._taken[episode.id] = len(episode.events)
        for saying in sayings(episode, self._run, episode.events[first:]):
            if saying.id in self._heard or saying.at <= self._forgotten_at.get(saying.user, 0.0):
                continue
            self._waiting.setdefault(saying.user, deque()).append(saying)
            if saying.user not in self._workers:
                self._workers[saying.user] = asyncio.create_task(self._hear(saying.user))

    def skip(self, episode: Episode) -> None:
        """Another process has let its memories hear what was said in a session so far."""
        first = self._taken.get(episode.id, 0)
        self._taken[episode.id] = len(episode.events)
        if any(memory.overrides("hear") for memory in self._memories):
            # The next start finds the session in this run, and must not take it for one that nobody has heard.
            for saying in sayings(episode, self._run, episode.events[first:]):
                if saying.id not in self._heard:
                    self._heard.add(saying.id)
                    self._journal.write({"heard": saying.id})

    async def finish(self, user: str | None = None, *, seconds: float | None = None) -> None:
        """Wait until everything was heard, or all of one user. What takes longer is left for the next start."""
        workers = [worker for whose, worker in self._workers.items() if user in (None, whose)]
        if workers:
            _, late = await asyncio.wait(workers, timeout=seconds)
            for worker in late:
                worker.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def forget(self, user: str, session: int, now: float) -> None:
        """Hear nothing of what a user has said up to now, and learn nothing from sessions up to this one."""
        self.forgotten[user], self._forgotten_at[user] = session, now
        self._waiting.pop(user, None)
        await self._journal.commit({"forgotten": user, "session": session, "at": now})
        if (worker := self._workers.get(user)) is not None:
            await asyncio.wait([worker])

    async def _hear(self, user: str) -> None:
        try:
            while waiting := self._waiting.get(user):
                saying = waiting[0]
                if (took := await self._took(saying)) is not None:
                    self._heard.add(saying.id)
                    self._journal.write({"heard": saying.id, **({"took": took} if took else {})})
                if self._waiting.get(user) is waiting:
                    waiting.popleft()
            self._waiting.pop(user, None)
        finally:
            del self._workers[user]

    async def _took(self, saying: Saying) -> dict[str, int] | None:
        """Let all memories hear. Return what that took them together, or None if one couldn't."""
        took = Counter[str]()
        try:
            async with self._places:
                for memory in self._memories:
                    took.update(await memory.hear(saying) or {})
        except AgentfwError as error:
            logger.warning("what a user said was not learned, and will be tried at the next start: %s", error)
            return None
        return dict(took)


def sayings(episode: Episode, run: str, events: Iterable[Event]) -> Iterator[Saying]:
    """What the user of a session says, according to these events of it. Ids have the run that the session began in."""
    run = next((one.data["run"] for one in episode.events if one.kind == "session" and "run" in one.data), run)
    for event in events:
        if (event.kind, event.name) == ("memory", "said"):
            place, before = event.data["message"], event.data["answer_to"]
            answer = "" if before is None else episode.messages[before].content
            for number, text in enumerate(event.data.get("texts") or (episode.messages[place].content,)):
                part = f".{number}" if number else ""
                yield Saying(
                    f"{run}/{episode.id}/{place}{part}",
                    episode.task.user,
                    text,
                    episode.task.query,
                    event.data["at"],
                    answer,
                )
