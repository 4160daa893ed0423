"""Creates single components of a resolved spec, names them in whatever goes wrong with them, and limits their time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from types import TracebackType
from typing import TypeVar

from ...errors import AgentfwError, PluginError, TimelineError, in_words, is_failure
from ...host import Host
from ...runs.records.call_record import CallRecord
from ...runs.spec.run_spec import Choice
from ..letting_go import letting_go
from ..plain_calls import misplaced_coroutine, plain
from ..plugin_calls import PluginCall

__all__ = ["Alive", "Calling", "Guard", "make"]

_OURS = "agentfw"
_OUR_PACKAGES = ("agentfw", "agentfw_plugins", "agentfw_memory", "agentfw_rewardmodels")
Alive = Callable[[], object]
Made = TypeVar("Made")
Answer = TypeVar("Answer")


def make(host: Host, kind: str, choice: Choice, protocol: type[Made], where: str = "") -> Made:
    """Create one component and check that it has the class required for its kind."""
    settings = choice.settings if choice.checked is None else choice.checked
    made = host.create(kind, choice.name, settings, where=where or f"{kind}.{choice.label}")
    if not isinstance(made, protocol):
        raise PluginError(
            f"{host.find(kind, choice.name).title} is of the class {type(made).__name__}, not {protocol.__name__}",
            fix=f"derive its class from agentfw.{protocol.__name__}; see: agentfw plugins check {choice.name}",
        )
    if wrong := misplaced_coroutine(type(made), protocol):
        registered = host.find(kind, choice.name)
        raise PluginError(f"{registered.title} {wrong}", fix=registered.record.mend)
    return made


class Guard:
    """Stands between a run and the code of one component.

    with guard.calling("begin()"):
        memory.begin(task)
    found = await guard.answer("recall()", lambda: memory.recall(query))
    """

    def __init__(
        self, host: Host, kind: str, name: str, deadline: float, label: str = "", record: CallRecord | None = None
    ) -> None:
        registered, self.kind = host.find(kind, name), kind
        self.title, self.mend, self.deadline = registered.title, registered.record.mend, deadline
        self.is_ours = registered.record.distribution == _OURS
        if label not in ("", registered.component.name):
            self.title += f' as "{label}"'
        self.record = record or CallRecord()
        self.row = self.record.row(kind, label or registered.component.name, self.title)

    def error(self, text: str, fix: str = "") -> PluginError:
        """An error of the component. `text` continues a sentence that begins with its name."""
        return PluginError(
            f"{self.title} {text}",
            fix=fix or f"{self.mend}; use --debug to see where it failed",
        )

    def require(self, holds: object, text: str, fix: str = "") -> None:
        """Raise the error unless something holds that every component of the kind must ensure."""
        if not holds:
            raise self.error(text, fix)

    def calling(self, call: str, episode: str = "", *, counted: bool = False) -> Calling:
        """Turn an unexpected exception of the component into a PluginError that names it.

        While it lasts, the run's record of calls says so.
        """
        return Calling(self, call, episode, counted)

    async def answer(
        self, call: str, ask: Callable[[], Awaitable[Answer]], episode: str = "", late: type[AgentfwError] = PluginError
    ) -> Answer:
        """Ask, and wait for the answer at most until the deadline. `late` is raised where there is none by then."""
        return await self.listen(call, lambda alive: ask(), episode, late)

    async def listen(
        self, call: str, ask: Callable[[Alive], Awaitable[Answer]], episode: str, late: type[AgentfwError]
    ) -> Answer:
        """Ask somebody who answers in pieces. `alive` is called with each, and the deadline begins again with it."""
        deadline, loop = asyncio.timeout(self.deadline), asyncio.get_running_loop()

        def alive() -> None:
            if not deadline.expired():
                deadline.reschedule(loop.time() + self.deadline)

        try:
            async with deadline:
                with self.calling(call, episode, counted=True):
                    asked = ask(alive)
                    if not isawaitable(asked):
                        raise TypeError(f"it returned a {type(asked).__name__}; it must be defined with `async def`")
                    return plain(await letting_go(asked))
        except TimeoutError as error:
            raise late(
                f"{self.title} has not answered {call} within {self.deadline:g} s",
                fix="check the server it depends on, or give it more time: --set deadline=SECONDS",
            ) from error


_EPISODE = ("", "play()")
"""Calls that last as long as an episode."""


class Calling(PluginCall):
    """A class and no generator: a run enters it several times for each turn of an agent."""

    __slots__ = ("_began", "_counted", "_number", "guard")

    def __init__(self, guard: Guard, call: str, episode: str, counted: bool) -> None:
        # Whatever a component of ours is given to run may change the process, too: that is put back after the episode.
        super().__init__(guard.title, call, episode, puts_back=not guard.is_ours or call in _EPISODE)
        self.guard, self._counted = guard, counted

    def __enter__(self) -> None:
        super().__enter__()
        self._began = time.monotonic()
        self._number = self.guard.row.begin(self.call or "an episode", self.episode)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        seconds = time.monotonic() - self._began if self._counted else None
        self.guard.row.end(self._number, seconds=seconds, failed=error is not None and is_failure(error))
        if error is None:
            return
        where = self.where
        if isinstance(error, AgentfwError) and not isinstance(error, TimelineError):
            self._name_in(error)
            return
        if isinstance(error, TimelineError):
            raise self.guard.error(f"failed in {where}: {error.message}", error.fix) from error
        if isinstance(error, asyncio.CancelledError):
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
