"""Calls hooks through pluggy's manager, in its order, with each plugin to answer for itself.

The first answer of a deciding hook that isn't None counts. Pluggy's own loop can't wait for a coroutine, and ends with
the first plugin that raises, so the loop is here, and pluggy says who is called in which order.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from pluggy import HookCaller, HookImpl, PluginManager, PluginValidationError

from .. import hookspecs
from ..boundary.guard import PluginCall, not_awaitable
from ..episode import Episode
from ..errors import AgentfwError, PluginError, UnknownNameError, in_words, is_failure, one_line
from ..hookspecs import DECIDING_HOOKS, LIFECYCLE_HOOKS
from ..request import Request


@dataclass(eq=False)
class HookOwner:
    """Whose hooks these are: a plugin, or a hook that a run names."""

    name: str
    title: str
    fix: str  # what to do about a mistake in its code
    record: Any  # of its plugin
    silenced: bool = False  # one of its observers has raised, and none of them is called again


class Decided(NamedTuple):
    answer: Any
    owner: HookOwner


class HookManager(PluginManager):
    def __init__(
        self, notes: list[str], *, traces: bool = False, strict: bool = False, deadline: float = 600.0
    ) -> None:
        """`notes` gets a line for each observer that raises; with `strict` that is an error instead."""
        super().__init__("agentfw")
        self.add_hookspecs(hookspecs)
        self.notes, self._traces, self._strict, self._deadline = notes, traces, strict, deadline
        self.owners: dict[str, HookOwner] = {}  # by the name under which a plugin is registered

    def for_run(self, deadline: float) -> HookManager:
        """A manager with the same plugins, to which the hooks that a run names are added."""
        made = HookManager(self.notes, traces=self._traces, strict=self._strict, deadline=deadline)
        for name, plugin in self.list_name_plugin():
            made.register(plugin, name)
        made.owners = {name: replace(owner) for name, owner in self.owners.items()}  # each run silences its own
        return made

    def add(self, hook: object, owner: HookOwner) -> None:
        """Add a hook that a run names. Raises PluginError if it can't be called."""
        name = f"{len(self.owners)}:{owner.name}"
        self.owners[name] = owner
        try:
            self.register(hook, name)
            self.check_pending()
        except PluginValidationError as error:
            raise PluginError(f"{owner.title} has a hook that can't be called: {error}", fix=owner.fix) from error
        wrong = [misused(each, caller.name) for caller, each in self.hooks_of(hook)]
        if not wrong or any(wrong):
            text = "; ".join(filter(None, wrong)) or "none of its methods is marked with @hookimpl"
            raise PluginError(f"{owner.title} has hooks that can't be called: {text}", fix=owner.fix)

    def hooks_of(self, plugin: object) -> list[tuple[HookCaller, HookImpl]]:
        callers = self.get_hookcallers(plugin) or []
        return [(caller, each) for caller in callers for each in caller.get_hookimpls() if each.plugin is plugin]

    def implementations(self, hook: str) -> list[HookImpl]:
        """Who implements a hook, in the order in which they are called."""
        return list(reversed(getattr(self.hook, hook).get_hookimpls()))

    def owner_of(self, implementation: HookImpl) -> HookOwner:
        return self.owners[implementation.plugin_name]

    def registered(self, hook: str, records: Sequence[Any]) -> list[tuple[Any, object]]:
        """What these plugins answer to a registration hook, or the errors that they raise."""
        found = []
        for implementation in self.implementations(hook):
            owner = self.owner_of(implementation)
            if owner.record in records:
                try:
                    answer: object = implementation.function()
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    answer = error
                self._trace(owner, hook, {}, answer)
                found.append((owner.record, answer))
        return found

    def tell(self, hook: str, **arguments: object) -> None:
        if hook not in LIFECYCLE_HOOKS:
            raise UnknownNameError("lifecycle hook", hook, LIFECYCLE_HOOKS)
        for implementation in self.implementations(hook):
            owner = self.owner_of(implementation)
            if owner.silenced:
                continue
            try:
                values = _given(implementation, arguments)
                with PluginCall(owner.title, f"{hook}()", owner.fix):
                    answer: object = not_awaitable(implementation.function(*values))
            except BaseException as error:
                if not is_failure(error):
                    raise
                answer = error
            self._trace(owner, hook, arguments, answer)
            if isinstance(answer, BaseException):
                text = f"{owner.title} raised {in_words(answer)} in {hook}"
                if self._strict:
                    raise PluginError(text, fix=owner.fix) from answer
                owner.silenced = True
                self.notes.append(f"{text} and is not called again; {owner.fix}")

    async def decide(self, hook: str, **arguments: object) -> Decided | None:
        """What the hooks decide. An error of theirs names the plugin."""
        waiting: list[tuple[HookOwner, Generator[None, Any, Any]]] = []
        found: Decided | None = None
        try:
            for implementation in self.implementations(hook):
                owner, values = self.owner_of(implementation), _given(implementation, arguments)
                if implementation.wrapper:
                    around: Any = implementation.function(*values)
                    await self._called(owner, hook, arguments, partial(next, around))
                    waiting.append((owner, around))
                    continue
                answer = await self._called(owner, hook, arguments, partial(implementation.function, *values))
                if answer is not None:
                    found = Decided(_checked(hook, answer, owner), owner)
                    break
            while waiting:
                owner, around = waiting.pop()
                inner = None if found is None else found.answer
                answer = await self._called(owner, hook, arguments, partial(_ended, around, inner))
                if answer is not inner:
                    found = None if answer is None else Decided(_checked(hook, answer, owner), owner)
        finally:
            for _, around in reversed(waiting):
                around.close()
        return found

    def decide_now(self, hook: str, **arguments: object) -> Decided | None:
        """Call `decide` without an event loop. The implementations of the hook must not be coroutines."""
        try:
            self.decide(hook, **arguments).send(None)
        except StopIteration as end:
            decided: Decided | None = end.value
            return decided
        raise AssertionError("a hook that must not wait has waited")

    async def _called(
        self, owner: HookOwner, hook: str, arguments: Mapping[str, object], call: Callable[[], Any]
    ) -> Any:
        limit: asyncio.Timeout | None = None
        try:
            with PluginCall(owner.title, f"{hook}()", owner.fix):
                answer = call()
                if inspect.isawaitable(answer):
                    if hook == "agentfw_record":
                        not_awaitable(answer)  # raises: a record is written at once
                    async with asyncio.timeout(self._deadline) as limit:
                        answer = await answer
        except BaseException as error:
            self._trace(owner, hook, arguments, error)
            if isinstance(error, AgentfwError) or not is_failure(error):
                raise
            if limit is not None and limit.expired() and isinstance(error, TimeoutError):
                text = f"{owner.title} has not answered {hook}() within {self._deadline:g} s"
                raise PluginError(text, fix=f"{owner.fix}, or give it more time: --set deadline=SECONDS") from error
            raise PluginError(f"{owner.title} failed in {hook}(): {in_words(error)}", fix=owner.fix) from error
        self._trace(owner, hook, arguments, answer)
        return answer

    def _trace(self, owner: HookOwner, hook: str, arguments: Mapping[str, object], answer: object) -> None:
        """AGENTFW_TRACE_HOOKS: print a call to stderr."""
        if self._traces:
            passed = ", ".join(f"{name}={one_line(repr(value), 120)}" for name, value in arguments.items())
            outcome = one_line(repr(answer), 120)
            if isinstance(answer, BaseException):
                outcome = f"raised {in_words(answer)}"
            sys.stderr.write(f"hook {owner.record.distribution}:{owner.name} {hook}({passed}) -> {outcome}\n")


def _given(implementation: HookImpl, arguments: Mapping[str, object]) -> list[object]:
    """Copies for one hook, which may change them. The run itself isn't copied."""
    values = [(name, arguments[name]) for name in implementation.argnames]
    return [
        value.copied() if isinstance(value, Episode) else value if name in _SHARED else copy.deepcopy(value)
        for name, value in values
    ]


_SHARED = ("run", "request", "record")  # not copied for each hook: what can't be changed, and the record, a copy


def _ended(around: Generator[None, Any, Any], inner: object) -> Any:
    """What a wrapper makes of the answer inside of it."""
    try:
        around.send(inner)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a wrapper must yield once")


def _checked(hook: str, answer: object, owner: HookOwner) -> Any:
    kinds = {"agentfw_request": Request, "agentfw_before_call": hookspecs.Verdict, "agentfw_record": dict}
    wanted: type = kinds[hook]
    if not isinstance(answer, wanted):
        text = f"{owner.title} answered {hook}() with a {type(answer).__name__}, not a {wanted.__name__}"
        raise PluginError(text, fix=owner.fix)
    return answer


def misused(implementation: HookImpl, hook: str) -> str:
    """What is wrong with a hook that can't be called in the way that it is written. Empty if nothing is."""
    function = implementation.function
    is_coroutine = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if implementation.hookwrapper or (inspect.isgeneratorfunction(function) and not implementation.wrapper):
        return f"{hook} is a generator; a deciding hook may be a wrapper: @hookimpl(wrapper=True)"
    if implementation.wrapper and hook not in DECIDING_HOOKS:
        return f"{hook} is a wrapper, which only deciding hooks may be"
    if is_coroutine and hook not in ("agentfw_request", "agentfw_before_call"):
        return f"{hook} is a coroutine, and nothing waits for it"
    return ""
