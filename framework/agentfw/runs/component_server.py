"""The process of an isolated component: makes the component, guards it as a run does, and answers with plain values."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from inspect import isawaitable
from typing import Any

from ...engine import Plain
from ...episode import Task
from ...errors import PluginError
from ...host import Host, HostOptions
from ...memory import Memory
from ...runs.records.long_texts import LongTexts
from ...runs.spec.resolution import as_before
from ...runs.spec.run_spec import Choice
from ...runs.spec.settings_record import from_json
from ...scores import RewardModel
from ...tool import Tool, Toolbox
from .creation import Guard, make
from .guarded import GuardedMemory, GuardedReward, GuardedTool, GuardedToolbox
from .plain_forms import READERS, plain

__all__ = ["ComponentServer"]

_MEBIBYTE = 2**20
_BASES: dict[str, type] = {"tool": Toolbox, "reward": RewardModel, "memory": Memory}


class ComponentServer:
    """The component in its own process."""

    def __init__(
        self, options: Plain, about: Plain, settings: Plain, most_memory: int | None, secrets: Sequence[str]
    ) -> None:
        _end_with_parent()
        if most_memory is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (most_memory * _MEBIBYTE,) * 2)
        kind, name, label = about["kind"], about["name"], about["label"]
        self._host, self._base = Host.load(HostOptions.from_plain(options)), _BASES[kind]
        self._host.secrets.add(*secrets)
        registered = self._host.find(kind, name)
        if registered.record.version != about["version"]:
            raise PluginError(f"{registered.title} was {about['version']} when the run began", fix="start a new run")
        where, given = f"{kind}.{label}", from_json(settings["given"])
        choice = Choice(name=name, settings=given)
        choice = choice.with_checked(self._host.check_settings(kind, name, given, where=where))
        choice = as_before(self._host, kind, choice, where, settings["in_force"])
        self._component: Any = make(self._host, kind, choice, self._base, where)
        self._more = f"give it more: --set {where}.most_memory=MIB"
        self._full = False
        self._guarded, self._tools = (
            self._guard(Guard(self._host, kind, name, float("inf"), label)),
            list[GuardedTool](),
        )

    async def ask(self, method: str, arguments: Plain) -> Plain:
        try:
            readers = READERS[method].given if method in READERS else ()
            given = [read(one) for read, one in zip(readers, arguments, strict=False)]
            answer = getattr(self, f"_{method}", None) or getattr(self._guarded, method)
            found = answer(*given)
            return {"answer": plain(await found if isawaitable(found) else found), "full": self._full}
        except PluginError as error:
            if not (self._full or isinstance(error.__cause__, MemoryError)):
                raise
            return {"failed": [error.message, self._more], "full": True}

    def _guard(self, guard: Guard) -> Any:
        whole = LongTexts(sys.maxsize)  # the run shortens them
        if isinstance(self._component, Memory):
            return GuardedMemory(self._component, guard, whole)
        if isinstance(self._component, RewardModel):
            return GuardedReward(self._component, guard)
        return GuardedToolbox(self._component, guard, whole)

    def _about(self) -> Plain:
        if getattr(self._component, "policy", None) is not None:
            raise PluginError(
                f"{self._guarded.guard.title} can't be isolated: it asks a policy, whose use is counted by the run",
                fix="leave out `isolate`",
            )
        own, base = type(self._component), self._base
        methods = [name for name in vars(base) if name in READERS and name != "close"]
        inherits = [name for name in methods if getattr(own, name) is getattr(base, name)]
        attributes = {"components": list(own.components)} if isinstance(self._component, RewardModel) else {}
        return {"inherits": inherits, "attributes": attributes}

    async def _open_tools(self) -> list[GuardedTool]:
        self._tools = self._noted(await self._guarded.open())
        return self._tools

    async def _call_tool(self, name: str, arguments: Plain, task: Task | None) -> Plain:
        if task is not None:
            tools = self._noted(await self._guarded.offered(task))
        else:  # another process may have opened them
            tools = self._tools or await self._open_tools()
        return await next(tool for tool in tools if tool.action.name == name).answer(arguments)

    def _noted(self, tools: list[GuardedTool]) -> list[GuardedTool]:
        """The tools, whose failures are answers. That one of them has no memory left is noted."""
        for guarded in tools:
            self._note(guarded.tool)
        return tools

    def _note(self, tool: Tool) -> None:
        call = tool.call

        async def noted(arguments: Any) -> str:
            try:
                return await call(arguments)
            except MemoryError:
                self._full = True
                raise

        tool.call = noted  # type: ignore[method-assign]


def _end_with_parent() -> None:
    """Let the system end this process with its parent, also where its code never lets another thread have a turn."""
    import ctypes
    import signal

    with suppress(AttributeError, OSError):  # only Linux can
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
