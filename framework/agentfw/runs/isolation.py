"""Runs a tool, a reward or a memory in a process of its own: `isolate = true`.

A crash in C, a leak or a call that never returns then costs an answer and not the run: the process is ended, the call
is an error that names the component, and the next call starts another process. It is no sandbox: what runs there may do
what its user may do.

    reward = isolated("reward", choice, Isolation(host, engine, spec.deadline))
    await reward.score(group)

In the other process, `ComponentServer` makes the component, guards it as a run does, and answers with plain values.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, NamedTuple

from ..boundary.calls import KINDS_OF_CALLS, Call
from ..boundary.coroutines import PATIENCE, in_thread
from ..boundary.crossing import GuardedMemory, GuardedReward, GuardedTool, GuardedToolbox, Layer
from ..boundary.forms import AbsentTool
from ..engine import Engine, Plain, Remote, RemoteDiedError, Resources
from ..errors import AgentfwError, PluginError
from ..host import Host, HostOptions
from ..memory import Memory
from ..scores import RewardModel
from ..tool import Tool
from .spec.resolution import as_before, complete, from_json, to_json
from .spec.run_spec import Choice, IsolableChoice

_SERVER = f"{__name__}:ComponentServer"
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
    table = KINDS_OF_CALLS[table_of(kind)]
    # What it leaves to its base class is left to it here, too: nobody asks its process for that.
    inherited = {name: getattr(table.base, name) for name in about["inherits"]}
    members = {**inherited, **about["attributes"]}
    return type(f"Isolated_{kind}", (Isolated, table.base), members, kind=table_of(kind))(process)


def table_of(kind: str) -> str:
    """The table of calls of a kind of component."""
    return "toolbox" if kind == "tool" else kind


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
        self.title, self._isolation = registered.title, isolation
        self._opening: tuple[Call, tuple[Any, ...]] | None = None
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
        found: Mapping[str, Any] = self._told(self._living(), "about", [])
        return found

    def open(self, call: Call, given: tuple[Any, ...]) -> None:
        """Let it open its folder now, and whenever its process is started again."""
        self._opening = call, given
        self.tell(call, given)

    async def ask(self, call: Call, given: tuple[Any, ...]) -> Any:
        """Make a call there, and wait for its answer.

        If the process dies while it has several calls, each of them is made again alone. So only the one that has ended
        it fails.
        """
        where = _where(call, given)
        async with self._alone:
            pass
        try:
            return call.answer.read(await self._ask_once(where, call.name, call.written(given)))
        except _DiedAmongOthersError:
            async with self._alone:
                while True:
                    try:
                        return call.answer.read(await self._ask_once(where, call.name, call.written(given)))
                    except _DiedAmongOthersError:
                        continue  # with a call that had begun before this one was alone

    async def ask_tool(self, offer: tuple[Call, tuple[Any, ...]], name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool there, which the call `offer` gave. It can't be called twice."""
        call, given = offer
        where = f"the tool {name}"
        episode = call.episode(given)
        where += f", episode {episode}" if episode else ""
        return await self._ask_once(where, "call_tool", [call.name, call.written(given), name, dict(arguments)])

    async def _ask_once(self, where: str, method: str, arguments: list[Plain]) -> Any:
        life = self._life
        if life is None or not _lives(life):
            life = await in_thread(self._living)
        call = life.remote.submit("ask", method, arguments)
        life.calls.add(call)
        try:
            # Wait until a call has an answer. It goes on if the waiting is cancelled.
            settled, loop = asyncio.Event(), asyncio.get_running_loop()

            def pass_on(call: concurrent.futures.Future[Plain]) -> None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(settled.set)

            call.add_done_callback(pass_on)
            await settled.wait()
        except asyncio.CancelledError:
            call.add_done_callback(life.calls.discard)
            asyncio.get_running_loop().call_later(PATIENCE, life.end_if_busy_with, call)
            raise
        try:
            return self._read(life, call.result())
        except RemoteDiedError as error:
            raise self._died(life, error, where) from error
        finally:
            life.calls.discard(call)

    def tell(self, call: Call, given: tuple[Any, ...]) -> Any:
        """Make a call there, and wait for its answer in this thread."""
        return call.answer.read(self._told(self._living(), call.name, call.written(given), _where(call, given)))

    async def close(self) -> None:
        life = self._life
        if life is None or not _lives(life):
            return
        try:
            if not life.calls:  # else nobody waits any more for what it is busy with
                async with asyncio.timeout(_CLOSING):
                    await self._ask_once("close()", "close", [])
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
                self._waited(life, remote.ready, "its creation")
                if self._opening is not None:
                    call, given = self._opening
                    self._told(life, call.name, call.written(given), call.title)
            return self._life

    def _told(self, life: _Life, method: str, arguments: list[Plain], where: str = "") -> Any:
        call = life.remote.submit("ask", method, arguments)
        life.calls.add(call)
        try:
            return self._read(life, self._waited(life, call, where or f"{method}()"))
        finally:
            life.calls.discard(call)

    def _waited(self, life: _Life, call: concurrent.futures.Future[Any], what: str) -> Plain:
        """The answer of a call that nothing else in this thread goes on without."""
        deadline = self._isolation.deadline
        try:
            return call.result(None if deadline == float("inf") else deadline)
        except RemoteDiedError as error:
            raise self._died(life, error, what) from error
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

    def _read(self, life: _Life, answered: Plain) -> Plain:
        if answered["full"]:  # what has taken all of its memory can't be trusted with another call
            life.kill()
        if "failed" in answered:
            message, fix = answered["failed"]
            raise PluginError(message, fix=fix)
        return answered["answer"]

    def _died(self, life: _Life, error: AgentfwError, what: str) -> PluginError:
        kind = PluginError if life.died() <= 1 else _DiedAmongOthersError
        return kind(f"{error.message} in {what}", fix=error.fix)


def _where(call: Call, given: tuple[Any, ...]) -> str:
    episode = call.episode(given)
    return f"{call.title}, episode {episode}" if episode else call.title


class Isolated(Layer):
    """The layer that passes every call on to the component's process."""

    def __init__(self, process: _Process) -> None:
        self._process = process

    async def later(self, call: Call, given: tuple[Any, ...]) -> Any:
        if call.name == "close":
            return await self._process.close()
        return self.with_tools(call, given, await self._process.ask(call, given))

    def now(self, call: Call, given: tuple[Any, ...]) -> Any:
        if call.name == "open":
            return self._process.open(call, given)
        return self.with_tools(call, given, self._process.tell(call, given))

    def around_tool(self, tool: Any, call: Call, given: tuple[Any, ...]) -> Any:
        return _IsolatedTool(self._process, tool, (call, given))


class _IsolatedTool(Tool):
    """A tool there. Its failures are answers for the agent, as those of every tool."""

    def __init__(self, process: _Process, about: AbsentTool, offer: tuple[Call, tuple[Any, ...]]) -> None:
        self._process, self._offer = process, offer
        self.action, self.takes, self.timeout = about

    async def answer(self, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        name = self.action.name
        try:
            # The tool has its own timeout there; this one is for code that doesn't let go.
            async with asyncio.timeout(self.timeout + PATIENCE):
                well, text = await self._process.ask_tool(self._offer, name, arguments)
                return well, text
        except TimeoutError:
            return False, f"{name} timed out after {self.timeout:g} s"
        except PluginError as error:
            return False, f"{name} failed: {error.message}"


def _lives(life: _Life) -> bool:
    return life.together is None and life.remote.alive


def _unmasked(value: Any) -> Any:
    """Settings with their secrets in words, for a pipe between two processes of one user and no disk."""
    if hasattr(value, "get_secret_value"):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return {key: _unmasked(inner) for key, inner in value.items()}
    return [_unmasked(inner) for inner in value] if isinstance(value, (list, tuple)) else value


_MEBIBYTE = 2**20


class ComponentServer:
    """The component in its own process."""

    def __init__(
        self, options: Plain, about: Plain, settings: Plain, most_memory: int | None, secrets: Sequence[str]
    ) -> None:
        # Let the system end this process with its parent, also where its code never lets another thread have a turn.
        import ctypes
        import signal

        with suppress(AttributeError, OSError):  # only Linux can
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if most_memory is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (most_memory * _MEBIBYTE,) * 2)
        kind, name, label = about["kind"], about["name"], about["label"]
        self._host, self._table = Host.load(HostOptions.from_plain(options)), KINDS_OF_CALLS[table_of(kind)]
        self._host.secrets.add(*secrets)
        registered = self._host.find(kind, name)
        if registered.record.version != about["version"]:
            raise PluginError(f"{registered.title} was {about['version']} when the run began", fix="start a new run")
        where, given = f"{kind}.{label}", from_json(settings["given"])
        choice = Choice(name=name, settings=given)
        choice = choice.with_checked(self._host.check_settings(kind, name, given, where=where))
        choice = as_before(self._host, kind, choice, where, settings["in_force"])
        self._component: Any = self._host.make(kind, choice, self._table.base, where)
        self._more = f"give it more: --set {where}.most_memory=MIB"
        self._full = False
        guard = self._host.guard(kind, name, float("inf"), label=label)
        around = {"memory": GuardedMemory, "reward": GuardedReward, "tool": GuardedToolbox}[kind]
        self._guarded = around(self._component, guard)
        self._opened: list[GuardedTool] | None = None
        """The tools of a toolbox, once it is open."""

    async def ask(self, method: str, arguments: list[Plain]) -> Plain:
        """Make a call of the table, or one of the two others that a component in a process of its own has."""
        try:
            if method == "about":
                if getattr(self._component, "policy", None) is not None:
                    raise PluginError(
                        f"{self._guarded.guard.title} can't be isolated: it asks a policy, whose use the run counts",
                        fix="leave out `isolate`",
                    )
                inherits = [name for name in self._table.calls if name != "close" and not self._guarded.overrides(name)]
                attributes: dict[str, Any] = {}
                if isinstance(self._component, RewardModel):
                    attributes["components"] = list(self._component.components)
                elif isinstance(self._component, Memory):
                    attributes["shared"] = bool(self._component.shared)
                return {"answer": {"inherits": inherits, "attributes": attributes}, "full": False}
            if method == "call_tool":
                return {"answer": list(await self._call_tool(*arguments)), "full": self._full}
            form = self._table.calls[method].answer
            return {"answer": form.write(await self._made(method, arguments)), "full": self._full}
        except PluginError as error:
            if not (self._full or isinstance(error.__cause__, MemoryError)):
                raise
            return {"failed": [error.message, self._more], "full": True}

    async def _made(self, method: str, arguments: list[Plain]) -> Any:
        """Make a call of the component, with arguments as the other process has written them."""
        found = getattr(self._guarded, method)(*self._table.calls[method].read(arguments))
        return await found if isawaitable(found) else found

    async def _call_tool(self, offer: str, given: list[Plain], name: str, arguments: Plain) -> tuple[bool, str]:
        """Call one of the tools that the component gave in the call `offer`: another process may have done that."""
        tools = self._opened or [self._noting(tool) for tool in await self._made(offer, given)]
        if not given:
            self._opened = tools
        return await next(tool for tool in tools if tool.action.name == name).answer(arguments)

    def _noting(self, guarded: GuardedTool) -> GuardedTool:
        """The tool, whose failures are answers. That it has no memory left is noted."""
        tool: Tool = guarded.inside
        call = tool.call

        async def noted(arguments: Any) -> str:
            try:
                return await call(arguments)
            except MemoryError:
                self._full = True
                raise

        tool.call = noted  # type: ignore[method-assign]
        return guarded
