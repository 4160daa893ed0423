"""A guard names its component in whatever goes wrong with it, limits its time, and counts its calls.

    guard = host.guard("memory", "notes", deadline=600)
    with guard.calling("begin()"):
        memory.begin(task)
    found = await guard.answer("recall()", lambda deadline: memory.recall(query))

Who is to blame is decided by the call in progress and not by the traceback, which may end in helpers and libraries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from itertools import islice
from types import CoroutineType, TracebackType
from typing import Any, TypeVar

from ..errors import AgentfwError, PluginError, TimelineError, in_words, is_failure
from .coroutines import CancelledItself, Deadline, DeadlineExceeded, plain
from .plugin_calls import IN_PROGRESS, PluginCall

__all__ = ["MOST_ITEMS", "CallCounts", "Calling", "Guard", "listed"]

_OUR_PACKAGES = ("agentfw", "agentfw_plugins", "agentfw_memory", "agentfw_rewardmodels")
MOST_ITEMS = 1_000_000
"""Items that an answer may have."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


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

    def calling(
        self,
        call: str,
        episode: str = "",
        *,
        counted: bool = False,
        passes: type[BaseException] | tuple[type[BaseException], ...] = (),
    ) -> Calling:
        """Turn an unexpected exception of the component into a PluginError that names it.

        While it lasts, the record of calls says so. `passes` are exceptions that are no failure of this call.
        """
        return Calling(self, call, episode, counted, passes)

    async def answer(
        self,
        call: str,
        ask: Callable[[Deadline], Awaitable[Answer]],
        episode: str = "",
        *,
        late: type[AgentfwError] = PluginError,
        check: Callable[[Answer], Answer] | None = None,
    ) -> Answer:
        """Ask, and wait for the answer at most until the deadline. `late` is raised where there is none by then.

        The deadline that `ask` is given begins again with each `extend`, for whoever answers in pieces. What `check`
        raises is wrong with the answer.
        """
        with Calling(self, call, episode, True, ()):
            deadline = Deadline(self.deadline)
            asked = ask(deadline)
            if type(asked) is not CoroutineType and not isawaitable(asked):
                raise TypeError(f"it returned a {type(asked).__name__}; it must be defined with `async def`")
            try:
                found = await deadline.answer(asked)
            except DeadlineExceeded as error:
                raise late(
                    f"{self.title} has not answered {call} within {self.deadline:g} s",
                    fix="check the server it depends on, or give it more time: --set deadline=SECONDS",
                ) from error
            except CancelledItself as error:
                raise self.error(f"cancelled the run in {call}", "let it cancel no tasks but its own") from error
            found = plain(found)
            return found if check is None else check(found)


class Calling(PluginCall):
    """A class and no generator: a run enters it several times for each turn of an agent."""

    __slots__ = ("_began", "_counted", "_number", "_passes", "guard")

    def __init__(
        self,
        guard: Guard,
        call: str,
        episode: str,
        counted: bool,
        passes: type[BaseException] | tuple[type[BaseException], ...],
    ) -> None:
        self.title, self.call, self.episode = guard.title, call, episode
        self.guard, self._counted, self._passes = guard, counted, passes

    def __enter__(self) -> None:
        super().__enter__()
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
        where = self.where
        if isinstance(error, TimelineError):
            raise self.guard.error(f"failed in {where}: {error.message}", error.fix) from error
        if isinstance(error, AgentfwError):
            self._name_in(error)
        elif isinstance(error, asyncio.CancelledError):
            if self.task is None or not self.task.cancelling():  # else it is the run that is cancelled
                raise self.guard.error(f"failed in {where}: it was cancelled from inside") from error
        elif is_failure(error):
            raise self.guard.error(f"failed in {where}: {in_words(error)}") from error

    def _name_in(self, error: AgentfwError) -> None:
        """Say whose it is, where the component itself raises an error of the framework's. Ours do so in words.

        It doesn't say in which episode, because a run counts its failures by their message.
        """
        if not (error.has_culprit or self.guard.is_ours) and self.guard.title not in error.message:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            module = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
            if module.partition(".")[0] not in ("", *_OUR_PACKAGES):
                error.message = f"{self.guard.title} failed in {self.call}: {error.message}"
                error.args = (error.message,)
        error.has_culprit = True


def listed(found: Iterable[Item], kind: type[Item], guard: Guard, *, limit: int | None = None) -> list[Item]:
    """What a component gave, as a list of our own: a sequence of a plugin's may be anything, and have no end."""
    items = list[Item]()
    for item in islice(found, MOST_ITEMS + 1 if limit is None else limit):
        if not isinstance(item, kind):
            raise guard.error(f"gave a {type(item).__name__}, not a {kind.__name__}")
        items.append(item)
    guard.require(len(items) <= MOST_ITEMS, f"gave more than {MOST_ITEMS:,} items")
    return items
