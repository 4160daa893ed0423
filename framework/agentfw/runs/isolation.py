"""Runs a tool, a reward or a memory in a process of its own: `isolate = true`.

A crash in C, a leak or a call that never returns then costs an answer and not the run: the process is ended, the call
is an error that names the component, and the next call starts another process. It is no sandbox: what runs there may do
what its user may do.

    reward = isolated("reward", choice, Isolation(host, engine, spec.deadline))
    await reward.score(group)
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ...engine import Engine, Plain, Remote, RemoteDiedError, Resources
from ...episode import Episode, Task
from ...errors import AgentfwError, PluginError
from ...host import Host
from ...memory import Memory, Query, Recollection, Remembered, Saying
from ...runs.spec.run_spec import IsolableChoice
from ...runs.spec.settings_record import complete, to_json
from ...scores import RewardModel, Score
from ...tool import Tool, Toolbox
from ..daemon_threads import in_thread
from ..letting_go import PATIENCE
from .plain_forms import READERS, AbsentTool, plain

__all__ = ["Isolation", "isolated"]

_SERVER = f"{__package__}.isolated_server:ComponentServer"
_CLOSING = 5.0
"""Seconds that a component may take to close."""


class Isolation(NamedTuple):
    """What all isolated components of a run have in common."""

    host: Host
    engine: Engine
    deadline: float


def isolated(kind: str, choice: IsolableChoice, isolation: Isolation) -> Any:
    """The component as this process sees it. Its own process has made it, so what is wrong with it is an error now."""
    process = _Process(kind, choice, isolation)
    about = process.about()
    base: type = {"tool": _IsolatedToolbox, "reward": _IsolatedReward, "memory": _IsolatedMemory}[kind]
    # What it leaves to its base class is left to it here, too: nobody asks its process for that.
    inherited = {name: getattr(base.__base__, name) for name in about["inherits"]}
    return type(base.__name__, (base,), {**inherited, **about["attributes"]})(process)


@dataclass(eq=False, slots=True)
class _Life:
    """One process, from its start to its end."""

    remote: Remote
    calls: set[concurrent.futures.Future[Plain]] = field(default_factory=set)
    """Those in progress."""
    together: int | None = None
    """How many calls were in progress when it ended. None while it lives."""

    def died(self) -> int:
        if self.together is None:
            self.together = len(self.calls)
        return self.together

    def kill(self) -> None:
        self.died()
        self.remote.kill()

    def end_if_busy_with(self, call: concurrent.futures.Future[Plain]) -> None:
        if not call.done():
            self.kill()


class _DiedAmongOthersError(PluginError):
    """The process ended in several calls at once, so nobody knows which of them has ended it."""


class _Process:
    """The process of a component, started again after it has died."""

    def __init__(self, kind: str, choice: IsolableChoice, isolation: Isolation) -> None:
        registered = isolation.host.find(kind, choice.name)
        self.title, self._isolation, self._folder = registered.title, isolation, ""
        self._arguments: list[Plain] = [
            isolation.host.options.plain(),
            {"kind": kind, "name": choice.name, "label": choice.label, "version": registered.record.version},
            {"given": to_json(_unmasked(choice.settings)), "in_force": complete(choice.checked)},
            choice.most_memory,
        ]
        self._life: _Life | None = None
        self._starting = threading.Lock()
        self._alone = asyncio.Lock()

    def about(self) -> Mapping[str, Any]:
        """What the component says of itself."""
        found: Mapping[str, Any] = self.tell("about")
        return found

    def open(self, folder: Path) -> None:
        self._folder = str(folder.resolve())
        self.tell("open", self._folder)

    async def ask(self, method: str, *given: object, episode: str = "") -> Any:
        """Call a method there.

        If the process dies while it has several calls, each of them is made again alone. So only the one that has ended
        it fails.
        """
        async with self._alone:
            pass
        try:
            return await self.ask_once(method, *given, episode=episode)
        except _DiedAmongOthersError:
            async with self._alone:
                while True:
                    try:
                        return await self.ask_once(method, *given, episode=episode)
                    except _DiedAmongOthersError:
                        continue  # with a call that had begun before this one was alone

    async def ask_once(self, method: str, *given: object, episode: str = "") -> Any:
        """Call a method there that can't be called twice."""
        life = self._life
        if life is None or not _lives(life):
            life = await in_thread(self._living)
        arguments = [plain(value) for value in given]
        call = life.remote.submit("ask", method, arguments)
        life.calls.add(call)
        try:
            await _settled(call)
        except asyncio.CancelledError:
            call.add_done_callback(life.calls.discard)
            asyncio.get_running_loop().call_later(PATIENCE, life.end_if_busy_with, call)
            raise
        try:
            return self._read(life, method, call.result())
        except RemoteDiedError as error:
            raise self._died(life, error, f"{method}()", episode) from error
        finally:
            life.calls.discard(call)

    def tell(self, method: str, *given: object, episode: str = "") -> Any:
        """Call a method there, and wait for its answer in this thread."""
        return self._told(self._living(), method, *given, episode=episode)

    async def close(self) -> None:
        life = self._life
        if life is None or not _lives(life):
            return
        try:
            if not life.calls:  # else nobody waits any more for what it is busy with
                async with asyncio.timeout(_CLOSING):
                    await self.ask_once("close")
                await in_thread(life.remote.stop)
        except TimeoutError as error:
            raise PluginError(
                f"{self.title} has not closed within {_CLOSING:g} s", fix="its process was ended"
            ) from error
        finally:
            life.kill()

    def _living(self) -> _Life:
        with self._starting:
            if self._life is None or not _lives(self._life):
                # The secrets of the run are struck out of what the process prints, also those of other components.
                about = [*self._arguments, sorted(self._isolation.host.secrets.values)]
                remote = self._isolation.engine.start(_SERVER, about, name=self.title, resources=Resources(here=True))
                life = self._life = _Life(remote)
                self._waited(life, remote.ready, "its creation", "")
                if self._folder:
                    self._told(life, "open", self._folder)
            return self._life

    def _told(self, life: _Life, method: str, *given: object, episode: str = "") -> Any:
        call = life.remote.submit("ask", method, [plain(value) for value in given])
        life.calls.add(call)
        try:
            return self._read(life, method, self._waited(life, call, f"{method}()", episode))
        finally:
            life.calls.discard(call)

    def _waited(self, life: _Life, call: concurrent.futures.Future[Plain], what: str, episode: str) -> Plain:
        """The answer of a call that nothing else in this thread goes on without."""
        deadline = self._isolation.deadline
        try:
            return call.result(None if deadline == float("inf") else deadline)
        except RemoteDiedError as error:
            raise self._died(life, error, what, episode) from error
        except TimeoutError as error:
            life.kill()
            raise PluginError(
                f"{self.title} has not answered {what} within {deadline:g} s",
                fix="see where it waits, or give it more time: --set deadline=SECONDS",
            ) from error
        except BaseException as error:
            if not isinstance(error, AgentfwError) or what == "its creation":  # a signal, or it couldn't be made
                life.kill()
            raise

    def _read(self, life: _Life, method: str, answered: Plain) -> Any:
        if answered["full"]:  # what has taken all of its memory can't be trusted with another call
            life.kill()
        if "failed" in answered:
            message, fix = answered["failed"]
            raise PluginError(message, fix=fix)
        return READERS[method].answer(answered["answer"]) if method in READERS else answered["answer"]

    def _died(self, life: _Life, error: AgentfwError, what: str, episode: str) -> PluginError:
        kind = PluginError if life.died() <= 1 else _DiedAmongOthersError
        return kind(f"{error.message} in {what}{episode and f', episode {episode}'}", fix=error.fix)


class _IsolatedReward(RewardModel):
    def __init__(self, process: _Process) -> None:
        self._process = process

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        found: Sequence[Score] = await self._process.ask("score", group)
        return found

    async def learn(self, episode: Episode) -> None:
        await self._process.ask("learn", episode, episode=episode.id)

    async def write_learned(self, folder: Path) -> bool:
        return bool(await self._process.ask("write_learned", folder))

    def open(self, folder: Path) -> None:
        self._process.open(folder)

    async def close(self) -> None:
        await self._process.close()


class _IsolatedMemory(Memory):
    def __init__(self, process: _Process) -> None:
        self._process = process

    async def recall(self, query: Query) -> Sequence[Recollection]:
        found: Sequence[Recollection] = await self._process.ask("recall", query, episode=query.task.id)
        return found

    async def learn(self, episode: Episode, reward: float) -> None:
        await self._process.ask("learn", episode, reward, episode=episode.id)

    async def hear(self, saying: Saying) -> None:
        await self._process.ask("hear", saying)

    async def remembered(self, user: str) -> Sequence[Remembered]:
        found: Sequence[Remembered] = await self._process.ask("remembered", user)
        return found

    async def correct(self, user: str, item: str, text: str) -> Remembered:
        found: Remembered = await self._process.ask("correct", user, item, text)
        return found

    async def forget_one(self, user: str, item: str) -> None:
        await self._process.ask("forget_one", user, item)

    async def forget(self, user: str) -> Mapping[str, int]:
        found: Mapping[str, int] = await self._process.ask("forget", user)
        return found

    def open(self, folder: Path) -> None:
        self._process.open(folder)

    def begin(self, task: Task) -> None:
        self._process.tell("begin", task, episode=task.id)

    def introduce(self, user: str, profile: Mapping[str, str]) -> None:
        self._process.tell("introduce", user, profile)

    def tools(self, task: Task) -> Sequence[Tool]:
        found = self._process.tell("tools", task, episode=task.id)
        return [_IsolatedTool(self._process, about, task) for about in found]

    async def offered(self, task: Task) -> Sequence[Tool]:
        found = await self._process.ask("tools", task, episode=task.id)
        return [_IsolatedTool(self._process, about, task) for about in found]

    async def close(self) -> None:
        await self._process.close()


class _IsolatedToolbox(Toolbox):
    def __init__(self, process: _Process) -> None:
        self._process = process

    async def open(self) -> Sequence[Tool]:
        return [_IsolatedTool(self._process, about) for about in await self._process.ask("open_tools")]

    async def close(self) -> None:
        await self._process.close()


class _IsolatedTool(Tool):
    """A tool there. Its failures are answers for the agent, as those of every tool."""

    def __init__(self, process: _Process, about: AbsentTool, task: Task | None = None) -> None:
        self._process, self._task = process, task
        self.action, self.takes, self.timeout = about

    async def answer(self, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        name = self.action.name
        try:
            # The tool has its own timeout there; this one is for code that doesn't let go.
            async with asyncio.timeout(self.timeout + PATIENCE):
                found: tuple[bool, str] = await self._process.ask_once("call_tool", name, arguments, self._task)
                return found
        except TimeoutError:
            return False, f"{name} timed out after {self.timeout:g} s"
        except PluginError as error:
            return False, f"{name} failed: {error.message}"


async def _settled(call: concurrent.futures.Future[Plain]) -> None:
    """Wait until a call has an answer. It goes on if the waiting is cancelled."""
    settled, loop = asyncio.Event(), asyncio.get_running_loop()

    def pass_on(call: concurrent.futures.Future[Plain]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settled.set)

    call.add_done_callback(pass_on)
    await settled.wait()


def _lives(life: _Life) -> bool:
    return life.together is None and life.remote.alive


def _unmasked(value: Any) -> Any:
    """Settings with their secrets in words, for a pipe between two processes of one user and no disk."""
    if hasattr(value, "get_secret_value"):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return {key: _unmasked(inner) for key, inner in value.items()}
    return [_unmasked(inner) for inner in value] if isinstance(value, (list, tuple)) else value
