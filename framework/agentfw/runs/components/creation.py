"""Creates single components of a resolved spec, names them in whatever goes wrong with them, and limits their time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeVar

from ...errors import AgentfwError, PluginError, TimelineError, in_words
from ...host import Host
from ..spec.run_spec import Choice

__all__ = ["Guard", "make"]

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
    return made


class Guard:
    """Stands between a run and the code of one component.

    with guard.calling("begin()"):
        memory.begin(task)
    found = await guard.answer("recall()", lambda: memory.recall(query))
    """

    def __init__(self, host: Host, kind: str, name: str, deadline: float, label: str = "") -> None:
        registered = host.find(kind, name)
        self.title, self.distribution, self.deadline = registered.title, registered.record.distribution, deadline
        if label not in ("", name):
            self.title += f' as "{label}"'

    def error(self, text: str, fix: str = "") -> PluginError:
        """An error of the component. `text` continues a sentence that begins with its name."""
        return PluginError(
            f"{self.title} {text}",
            fix=fix or f"tell the authors of {self.distribution}; use --debug to see where it failed",
        )

    def require(self, holds: object, text: str, fix: str = "") -> None:
        """Raise the error unless something holds that every component of the kind must ensure."""
        if not holds:
            raise self.error(text, fix)

    def calling(self, call: str, episode: str = "") -> _Calling:
        """Turn an unexpected exception of the component into a PluginError that names it."""
        return _Calling(self, call, episode)

    async def answer(
        self, call: str, ask: Callable[[], Awaitable[Answer]], episode: str = "", late: type[AgentfwError] = PluginError
    ) -> Answer:
        """Ask, and wait for the answer at most until the deadline. `late` is raised where there is none by then."""
        deadline = asyncio.timeout(self.deadline)
        try:
            async with deadline:
                with self.calling(call, episode):
                    return await ask()
        except TimeoutError as error:
            raise late(
                f"{self.title} has not answered {call} within {self.deadline:g} s",
                fix="check the server it depends on, or give it more time: --set deadline=SECONDS",
            ) from error


class _Calling:
    """A class and no generator: a run enters it several times for each turn of an agent."""

    __slots__ = ("_call", "_episode", "_guard")

    def __init__(self, guard: Guard, call: str, episode: str) -> None:
        self._guard, self._call, self._episode = guard, call, episode

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or (isinstance(error, AgentfwError) and not isinstance(error, TimelineError)):
            return
        where = ", ".join(filter(None, (self._call, f"episode {self._episode}" if self._episode else "")))
        if isinstance(error, TimelineError):
            raise self._guard.error(f"failed in {where}: {error.message}", error.fix) from error
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # else it is the run that is cancelled
                raise self._guard.error(f"failed in {where}: it was cancelled from inside") from error
        elif isinstance(error, (Exception, SystemExit)):
            raise self._guard.error(f"failed in {where}: {in_words(error)}") from error
