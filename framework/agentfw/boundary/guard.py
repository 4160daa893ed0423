"""A guard names its component in whatever goes wrong with it, limits its time, and counts its calls.

    guard = host.guard("memory", "notes", deadline=600)
    with guard.calling("begin()"):
        memory.begin(task)

Calls that are awaited get their deadline in `crossing.py`.

Who is to blame is decided by the call in progress and not by the traceback, which may end in helpers and libraries.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable
from itertools import islice
from types import TracebackType
from typing import Any, TypeVar

from ..errors import AgentfwError, PluginError, TimelineError, in_words, is_failure
from .plugin_calls import IN_PROGRESS, PluginCall, current_task

Item = TypeVar("Item")

_UNLIMITED = ("learner", "optimizer")
"""The kinds whose calls may take as long as they need."""


class CallCounts:
    """Counts the calls of components. This one counts nothing, for calls outside of a run."""

    def row(self, kind: str, name: str, title: str) -> Any:
        """What counts the calls of one component."""
        return self

    def begin(self, call: str, episode: str = "") -> int:
        return 0

    def end(self, number: int, *, seconds: float | None = None, failed: bool = False) -> None:
        pass

    def count(self, seconds: float, *, failed: bool) -> None:
        pass

    def spend(self, cost: float | None) -> None:
        pass


class Guard:
    """Stands between a run and the code of one component."""

    def __init__(
        self,
        kind: str,
        name: str,
        title: str,
        *,
        mend: str,
        deadline: float = float("inf"),
        is_ours: bool = False,
        counts: CallCounts | None = None,
    ) -> None:
        """`title` names the component in errors, `mend` says what to do about a mistake in its code."""
        self.kind, self.name, self.title, self.mend = kind, name, title, mend
        self.deadline, self.is_ours = deadline, is_ours
        self.counts = CallCounts() if counts is None else counts
        self.row = self.counts.row(kind, name, title)

    def error(self, text: str, fix: str = "") -> PluginError:
        """An error of the component. `text` continues a sentence that begins with its name."""
        return PluginError(f"{self.title} {text}", fix=fix or f"{self.mend}; use --debug to see where it failed")

    def require(self, holds: object, text: str, fix: str = "") -> None:
        """Raise the error unless something holds that every component of the kind must ensure."""
        if not holds:
            raise self.error(text, fix)

    def calling(self, call: str, episode: str = "", passes: type[BaseException] | tuple[()] = ()) -> Calling:
        """Turn an unexpected exception of the component into a PluginError that names it.

        While it lasts, the record of calls says so. `passes` is an exception that is no failure of this call.
        """
        return Calling(self, call, episode, False, passes)


class Calling(PluginCall):
    """A call of a component, in progress within its `with` block.

    A class and no generator: a run enters it several times for each turn of an agent.
    """

    __slots__ = ("_began", "_counted", "_number", "_passes", "guard")

    def __init__(
        self, guard: Guard, call: str, episode: str, counted: bool, passes: type[BaseException] | tuple[()] = ()
    ) -> None:
        """`counted` adds the call and its seconds to the record also if it succeeds."""
        self.title, self.call, self.episode = guard.title, call, episode
        self.mend = "" if guard.kind in _UNLIMITED else guard.mend
        self.guard, self._counted, self._passes = guard, counted, passes

    def __enter__(self) -> None:
        self.thread, self.task = threading.get_ident(), current_task()
        IN_PROGRESS[self] = None
        self._began = time.monotonic() if self._counted else 0.0
        self._number = self.guard.row.begin(self.call or "an episode", self.episode)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        IN_PROGRESS.pop(self, None)
        seconds = time.monotonic() - self._began if self._counted else None
        if error is None or isinstance(error, self._passes):
            self.guard.row.end(self._number, seconds=seconds)
            return
        self.guard.row.end(self._number, seconds=seconds, failed=is_failure(error))
        if isinstance(error, AgentfwError):
            # What is raised while an episode is played is mostly the framework's. Ours name themselves.
            theirs = (self.call not in ("", "play()") and not self.guard.is_ours) or isinstance(error, TimelineError)
            if theirs and not error.has_culprit and self.guard.title not in error.message:
                # Not in which episode: a run counts its failures by their message.
                error.message = f"{self.guard.title} failed in {self.call or 'an episode'}: {error.message}"
                error.args = (error.message,)
            error.has_culprit = True
        elif isinstance(error, asyncio.CancelledError):
            if self.task is None or not self.task.cancelling():  # else it is the run that is cancelled
                raise self.guard.error(f"failed in {self.where}: it was cancelled from inside") from error
        elif is_failure(error):
            raise self.guard.error(f"failed in {self.where}: {in_words(error)}") from error


def listed(found: Iterable[Item], kind: type[Item], guard: Guard, *, limit: int | None = None) -> list[Item]:
    """What a component gave, as a list of our own."""
    items = []
    for item in islice(found, limit):
        if not isinstance(item, kind):  # looked at one by one, because there may be no end of them
            raise guard.error(f"gave a {type(item).__name__}, not a {kind.__name__}")
        items.append(item)
    return items
