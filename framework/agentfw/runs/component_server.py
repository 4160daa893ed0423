"""The process of an isolated component: makes the component, guards it as a run does, and answers with plain values."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from inspect import isawaitable
from typing import Any

from ..boundary.calls import KINDS_OF_CALLS
from ..boundary.crossing import GuardedMemory, GuardedReward, GuardedTool, GuardedToolbox
from ..engine import Plain
from ..errors import PluginError
from ..host import Host, HostOptions
from ..memory import Memory
from ..scores import RewardModel
from ..tool import Tool
from .isolation import table_of
from .spec.resolution import as_before
from .spec.run_spec import Choice
from .spec.settings_record import from_json

__all__ = ["ComponentServer"]

_MEBIBYTE = 2**20


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
                return {"answer": self._about(), "full": False}
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
        given = [form.read(one) for form, one in zip(self._table.calls[method].given, arguments, strict=False)]
        found = getattr(self._guarded, method)(*given)
        return await found if isawaitable(found) else found

    def _about(self) -> Plain:
        if getattr(self._component, "policy", None) is not None:
            raise PluginError(
                f"{self._guarded.guard.title} can't be isolated: it asks a policy, whose use is counted by the run",
                fix="leave out `isolate`",
            )
        inherits = [name for name in self._table.calls if name != "close" and not self._guarded.overrides(name)]
        attributes: dict[str, Any] = {}
        if isinstance(self._component, RewardModel):
            attributes["components"] = list(self._component.components)
        elif isinstance(self._component, Memory):
            attributes["shared"] = bool(self._component.shared)
        return {"inherits": inherits, "attributes": attributes}

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


def _end_with_parent() -> None:
    """Let the system end this process with its parent, also where its code never lets another thread have a turn."""
    import ctypes
    import signal

    with suppress(AttributeError, OSError):  # only Linux can
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
