"""Lets the memories of a live run hear what its users say, behind the answers.

A session records what its user has said before the policy is asked. When the answer is recorded too, the memories hear
it: in order for each user, of several users side by side. What an earlier process didn't come to is heard at the next
start, because `heard.jsonl` has what was heard, what that took, and of whom everything was forgotten.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..boundary.crossing import GuardedMemory
from ..episode import Episode, Event
from ..errors import AgentfwError, StorageError
from ..memory import Saying
from .records.journal import Journal

logger = logging.getLogger(__name__)

_AGAIN = 2.0  # seconds until a memory whose store failed is told again
_AT_ONCE = 4  # number of users who are heard at the same time: whoever waits for a recollection waits for no more


class Hearing:
    """What is said, until it was heard."""

    def __init__(
        self, memories: Sequence[GuardedMemory], journal: Journal, run: str, lines: Iterable[dict[str, Any]]
    ) -> None:
        self._memories, self._journal, self._run = memories, journal, run
        self.hears = any(memory.overrides("hear") for memory in memories)
        """Whether any memory learns from what users say. If not, nothing is to be taken."""
        self._heard = set[str]()
        # The last session of each user that nothing is learned from, because they were forgotten after it began.
        self.forgotten = dict[str, int]()
        self._forgotten_at = dict[str, float]()
        for line in lines:
            if "heard" in line:
                self._heard.add(line["heard"])
            else:
                self.forget_until(line["forgotten"], line["session"], line["at"])
        self._taken = dict[str, int]()  # number of events of each session that were looked at
        self._waiting = dict[str, deque[Saying]]()
        self._workers = dict[str, asyncio.Task[None]]()
        self._places = asyncio.Semaphore(_AT_ONCE)
        self.failed = set[str]()  # users who said something that a memory couldn't hear
        self._problem = ""  # what was told last, so that it is told once

    def waiting(self, user: str | None = None) -> int:
        """Number of sayings that were not heard yet, of one user or of all."""
        return sum(len(line) for whose, line in self._waiting.items() if user in (None, whose))

    def take(self, episode: Episode, first: int | None = None) -> None:
        """Let the memories hear what is new in a session, or all from the event `first` on."""
        first = self._taken.get(episode.id, 0) if first is None else first
        self._taken[episode.id] = len(episode.events)
        for saying in sayings(episode, self._run, episode.events[first:]):
            if saying.id in self._heard or saying.at <= self._forgotten_at.get(saying.user, 0.0):
                continue
            line = self._waiting.setdefault(saying.user, deque())
            if all(one.id != saying.id for one in line):
                line.append(saying)
            self._begin(saying.user)

    def _begin(self, user: str) -> None:
        if user in self._waiting and user not in self._workers:
            self._workers[user] = asyncio.create_task(self._hear(user))

    def leave(self, episode: Episode) -> None:
        self._taken.pop(episode.id, None)

    def lacks(self, episode: str, line: Mapping[str, Any]) -> bool:
        """Whether something that was said according to a line of an episode's record was not heard."""
        for _, kind, name, data, *_ in line["events"] if self.hears else ():
            if (kind, name) == ("memory", "said") and data["at"] > self._forgotten_at.get(line["task"]["user"], 0.0):
                ids = _ids(f"{self._run}/{episode}/{data['message']}", len(data.get("texts") or [""]))
                if not self._heard.issuperset(ids):
                    return True
        return False

    def recovered(self, ended: Iterable[str]) -> None:
        """All that an earlier process left was taken, so what it heard needn't be known any more."""
        self._heard.clear()
        for episode in ended:
            self._taken.pop(episode, None)

    async def finish(self, user: str | None = None, *, seconds: float | None = None) -> None:
        """Wait until everything was heard, or all of one user. What takes longer is left for the next start."""
        workers = [worker for whose, worker in self._workers.items() if user in (None, whose)]
        if workers:
            _, late = await asyncio.wait(workers, timeout=seconds)
            for worker in late:
                worker.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def close(self) -> None:
        """Try nothing again. What was not heard is left for the next start."""
        self._waiting.clear()

    def forget_until(self, user: str, session: int, at: float = 0.0) -> None:
        """Hear nothing of what a user has said up to a time, and learn nothing from sessions up to this one."""
        self.forgotten[user] = max(session, self.forgotten.get(user, -1))
        self._forgotten_at[user] = max(at, self._forgotten_at.get(user, 0.0))

    async def forget(self, user: str, session: int, now: float) -> None:
        """Hear nothing of what a user has said so far, and wait until nothing of it is being heard."""
        self.forget_until(user, session, now)
        self._waiting.pop(user, None)
        await self._journal.commit({"forgotten": user, "session": self.forgotten[user], "at": now})
        if (worker := self._workers.get(user)) is not None:
            await asyncio.wait([worker])

    async def _hear(self, user: str) -> None:
        try:
            while waiting := self._waiting.get(user):
                saying = waiting[0]
                try:
                    took = Counter[str]()
                    async with self._places:
                        for memory in self._memories:
                            took.update(await memory.hear(saying) or {})
                    self._journal.write({"heard": saying.id, **({"took": dict(took)} if took else {})})
                    self._problem = ""
                except StorageError as error:  # such as a full disk: a memory hears nothing twice
                    self._tell(error, f"trying every {_AGAIN:g} s")
                    asyncio.get_running_loop().call_later(_AGAIN, self._begin, user)
                    return
                except AgentfwError as error:
                    self.failed.add(user)
                    self._tell(error, "it will be tried at the next start")
                waiting.popleft()
            self._waiting.pop(user, None)
        finally:
            del self._workers[user]

    def _tell(self, error: AgentfwError, then: str) -> None:
        if error.message != self._problem:
            self._problem = error.message
            logger.warning("what a user said was not learned: %s; %s", error, then)


def _ids(first: str, texts: int) -> list[str]:  # of the texts of a message
    return [first, *(f"{first}.{number}" for number in range(1, texts))]


def sayings(episode: Episode, run: str, events: Iterable[Event]) -> Iterator[Saying]:
    """What the user of a session says, according to these events of it. Ids have the run that the session began in."""
    run = next((one.data["run"] for one in episode.events if one.kind == "session" and "run" in one.data), run)
    for event in events:
        if (event.kind, event.name) == ("memory", "said"):
            place, before = event.data["message"], event.data["answer_to"]
            answer = "" if before is None else episode.messages[before].content
            earlier = next((one.content for one in reversed(episode.messages[:place]) if one.role == "user"), "")
            texts = event.data.get("texts") or (episode.messages[place].content,)
            for name, text in zip(_ids(f"{run}/{episode.id}/{place}", len(texts)), texts, strict=True):
                yield Saying(name, episode.task.user, text, episode.task.query, event.data["at"], answer, earlier)
                answer, earlier = "", text  # the next text was said after this one
