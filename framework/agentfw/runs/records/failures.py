"""Failed episodes: repeated where a server was to blame, then left out and counted, until too many have failed.

A failure that another try may mend (a server that is down) is retried. Every other failure of an episode or of its
scoring leaves the episode out at once. Wrong settings and a full disk are no failures of an episode: they end the run.

The episodes that were left out are in failed.jsonl, one line each, so that a resumed run leaves the same ones out. If
a run has stopped because too many failed, the resumed run plays these again: the cause may be gone.

    failures = Failures(records, spec, planned=32, group=4)
    try:
        episode = await failures.retried(lambda: play(task))
    except AgentfwError as error:
        failures.leave_out([task.id], "play", error, any_succeeded=True)
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ...errors import (
    AgentfwError,
    BudgetSpentError,
    EndpointError,
    MissingExtraError,
    QuotaEndedError,
    RequestRefusedError,
    StorageError,
    UsageError,
)
from ..spec.run_spec import RunSpec
from .journal import Journal
from .play_records import Records

Found = TypeVar("Found")

_FATAL = (UsageError, StorageError, MissingExtraError, QuotaEndedError, BudgetSpentError)
"""Errors that no other episode can be spared."""
_PAUSE = 0.5
"""Seconds before the first repetition. Each further pause is twice as long."""


class Failures:
    """The episodes of one play that were left out."""

    def __init__(self, records: Records, spec: RunSpec, *, planned: int, group: int = 0) -> None:
        """`group` is the number of episodes that are scored together, where another group can take their place."""
        self.records, self.spec, self.planned, self.group = records, spec, planned, group
        self.lines: dict[str, Mapping[str, Any]] = {str(line["episode"]): line for line in records.failed()}
        self._errors: list[AgentfwError] = []

    def __contains__(self, episode: str) -> bool:
        return episode in self.lines

    def __len__(self) -> int:
        return len(self.lines)

    def recover(self, *, any_succeeded: bool) -> None:
        """Forget the failures that an earlier execution has stopped at."""
        if self._too_many(any_succeeded):
            self._append({"retried": list(self.lines)})
            self.lines = {}

    async def retried(self, work: Callable[[], Awaitable[Found]]) -> Found:
        """Do the work, and repeat it when a server fails."""
        for attempt in range(self.spec.retries):
            try:
                return await work()
            except (RequestRefusedError, QuotaEndedError):
                raise
            except EndpointError:
                await asyncio.sleep(_PAUSE * 2**attempt)
        return await work()

    def leave_out(self, episodes: Sequence[str], stage: str, error: AgentfwError, *, any_succeeded: bool) -> None:
        """Record failed episodes. Raises if the error concerns all episodes, or if too many have failed."""
        if isinstance(error, _FATAL):
            raise error
        self._errors.append(error)
        for episode in episodes:
            line = {"episode": episode, "stage": stage, "error": type(error).__name__, "reason": error.message}
            self.lines[episode] = self._append(line)
        if self._too_many(any_succeeded):
            raise self._stopped()

    def _too_many(self, any_succeeded: bool) -> bool:
        if not self.planned:  # sessions come from outside: there is nothing to stop
            return False
        # A fault that all episodes have must not wait for its share of a long run: the first ones are enough.
        first = not any_succeeded and len(self.lines) >= max(2, self.spec.concurrency)
        # One NaN leaves out a whole group. Of few groups that is a large share, and says little about the others.
        scored = sum(line["stage"] == "score" for line in self.lines.values())
        spared = min(self.group, scored) if len(self.lines) < self.planned else 0
        return first or len(self.lines) - spared > self.spec.max_failed * self.planned

    def _stopped(self) -> AgentfwError:
        """The error of a run that stops: the first one, or if the reasons differ, all of them."""
        found = reasons(self.lines.values())
        if len(found) == 1:
            return self._errors[0]
        told = "; ".join(f"{count} x {reason}" for reason, count in found.items())
        stopped = AgentfwError(
            f"{len(self.lines)} of {self.planned} episodes failed, and max_failed is {self.spec.max_failed:g}: {told}",
            fix=self._errors[-1].fix,
        )
        stopped.exit_code = self._errors[-1].exit_code
        return stopped

    def _append(self, line: dict[str, Any]) -> dict[str, Any]:
        # Opened for each line: most runs have none, and then there is no file.
        with Journal.open(self.records.path / "failed.jsonl") as journal:
            return journal.append(line)


def reasons(lines: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How often each reason occurs, the most frequent first. Reasons that differ only in numbers are one."""
    found: dict[str, list[str]] = {}
    for line in lines:
        found.setdefault(re.sub(r"\d+", "#", line["reason"]), []).append(line["reason"])
    return {same[0]: len(same) for same in sorted(found.values(), key=len, reverse=True)}
