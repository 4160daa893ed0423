"""Components whose every call crosses a layer. All layers are made from one table, and stand around one another.

    memory = GuardedMemory(threaded, guard)     # a guard around a thread around the memory of a plugin

A layer has two methods: one for what is awaited and one for what isn't. Its class gets the methods of a kind from the
table of calls. Besides the guard there are two: one tells trackers how long calls take. The other calls the memories of
a gateway in a thread of their own, because one that waits for a lock or an embedder without `await` would keep
everybody waiting.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from inspect import isawaitable, iscoroutinefunction, signature
from types import CoroutineType
from typing import Any, ClassVar

from ..environment import Environment
from ..episode import Task
from ..errors import AgentfwError, PluginError
from ..learner import Learner
from ..memory import Memory
from ..optimizer import Optimizer
from ..policy import Policy
from ..scores import RewardModel
from ..tool import Tool, Toolbox
from ..tracker import Operation, Tracker
from .calls import KINDS_OF_CALLS, CallTable
from .forms import TOOLS, Call, Passage, Shorten, Spending
from .guard import Calling, Deadline, Guard, as_coroutine, not_awaitable
from .secrets import strike, struck

logger = logging.getLogger(__name__)

_PATIENCE = 10.0  # seconds

Trace = Callable[[Operation], object]


class Layer:
    """Base class of layers. A class that is given a `kind` gets all methods of that kind, each of which crosses."""

    table: ClassVar[CallTable]
    _inside: Any

    def __init_subclass__(cls, *, kind: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if not kind:
            return
        cls.table = KINDS_OF_CALLS[kind]
        for name, call in cls.table.calls.items():
            if name not in vars(cls):
                setattr(cls, name, _method(call, getattr(cls.table.base, name)))

    @property
    def inside(self) -> Any:
        """The component that this one passes its calls to."""
        return self._inside

    @inside.setter
    def inside(self, component: Any) -> None:
        self._inside = innermost = component
        while isinstance(innermost, Layer) and "_inside" in vars(innermost):
            innermost = innermost._inside
        own, base = type(innermost), self.table.base
        self._overridden = {name for name in self.table.calls if getattr(own, name, None) is not getattr(base, name)}

    def overrides(self, name: str) -> bool:
        """Whether the component has a method of its own, and not that of its base class."""
        return name in self._overridden

    def take_attributes(self, component: Any) -> None:
        """Copy the attributes of the component that callers read."""
        for name in self.table.attributes:
            setattr(self, name, getattr(component, name))

    def with_tools(self, call: Call, given: tuple[Any, ...], found: Any) -> Any:
        """What a call has given. Its tools cross this layer, too."""
        return [self.around_tool(tool, given) for tool in found] if call.answer is TOOLS else found

    def around_tool(self, tool: Any, given: tuple[Any, ...]) -> Any:
        """A tool that a call with these values has given, within this layer."""
        raise NotImplementedError

    def later(self, call: Call, given: tuple[Any, ...]) -> Awaitable[Any]:
        """Make a call that is awaited."""
        found: Awaitable[Any] = call.on(self._inside, given)
        return found

    def now(self, call: Call, given: tuple[Any, ...]) -> Any:
        """Make a call that is not awaited."""
        return self.with_tools(call, given, call.on(self._inside, given))


def _method(call: Call, of_base: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a layer for a call. Values that are given by name are put in order."""
    parameters, waits = [*signature(of_base).parameters][1:], iscoroutinefunction(of_base)

    def method(self: Layer, *given: Any, **named: Any) -> Any:
        if named:
            given = (*given, *(named[name] for name in parameters[len(given) :] if name in named))
        return self.later(call, given) if waits else self.now(call, given)

    method.__name__ = call.name
    return method


@cache
def layered(layer: type[Layer], kind: str) -> type[Any]:
    """The class of a layer around components of a kind."""
    return type(f"{layer.__name__}_{kind}", (layer, KINDS_OF_CALLS[kind].base), {}, kind=kind)


class Guarded(Layer):
    """The layer that names the component in whatever goes wrong, limits its time, and checks what it answers."""

    def __init__(
        self,
        component: Any,
        guard: Guard,
        *,
        spending: Spending | None = None,
        shorten: Shorten | None = None,
        episode: str = "",
    ) -> None:
        """`episode` is that of all calls, for a component of one episode."""
        self.guard, self.spending, self.shorten, self.episode = guard, spending, shorten, episode
        self.inside = component
        with guard.calling("its attributes"):
            self.take_attributes(component)

    def around(self, kind: str, component: Any) -> Any:
        """The same guard around something that the component gave."""
        own: type[Guarded] = {"tool": GuardedTool, "policy": GuardedPolicy}[kind]
        return own(component, self.guard, spending=self.spending, shorten=self.shorten)

    def later(self, call: Call, given: tuple[Any, ...]) -> Awaitable[Any]:
        if call.quiet and not self.overrides(call.name):
            return super().later(call, given)
        if not call.spends or self.spending is None:
            return self.in_time(call, given)
        ask = self.spending.ask if call.spends == "ask" else self.spending.finish
        return ask(lambda: self.in_time(call, given))

    async def in_time(self, call: Call, given: tuple[Any, ...]) -> Any:
        """Make a call, and wait for its answer at most until the deadline."""
        guard, episode = self.guard, call.episode(given) or self.episode
        deadline = Deadline(guard.deadline)
        with Calling(guard, call.title, episode, counted=True):
            passage = Passage(self, self._inside, call, given)
            passage.deadline = deadline
            asked = passage.ask()
            if type(asked) is not CoroutineType:
                if not isawaitable(asked):
                    raise TypeError(f"it returned a {type(asked).__name__}; it must be defined with `async def`")
                asked = as_coroutine(asked)
            try:
                # The first step by hand: most calls of a memory end with it, and need no timer.
                awaited = asked.send(None)
            except StopIteration as end:
                found = end.value
            else:
                try:
                    found = await deadline.wait(asked, awaited)
                except TimeoutError as error:
                    if not deadline.expired:
                        raise
                    raise call.late(
                        f"{guard.title} has not answered {call.title} within {guard.deadline:g} s",
                        fix="check the server it depends on, or give it more time: --set deadline=SECONDS",
                    ) from error
            return passage.check(not_awaitable(found))

    def now(self, call: Call, given: tuple[Any, ...]) -> Any:
        if call.quiet and not self.overrides(call.name):
            return super().now(call, given)
        with self.guard.calling(call.title, call.episode(given) or self.episode, call.passes):
            passage = Passage(self, self._inside, call, given)
            return passage.check(not_awaitable(passage.ask()))


class GuardedPolicy(Guarded, Policy, kind="policy"):
    """A policy. Silence until the deadline is an EndpointError: usually its server hangs."""


class GuardedMemory(Guarded, Memory, kind="memory"):
    """A memory."""


class GuardedReward(Guarded, RewardModel, kind="reward"):
    """A reward model."""


class GuardedToolbox(Guarded, Toolbox, kind="toolbox"):
    """A toolbox. The tools that it opens into are guarded, too."""


class GuardedEnvironment(Guarded, Environment, kind="environment"):
    """The world of one episode. The guard around the episode has what the timeline calls of it."""


class GuardedTracker(Guarded, Tracker, kind="tracker"):
    """A tracker."""


class GuardedOptimizer(Guarded, Optimizer, kind="optimizer"):
    """An optimizer."""


class GuardedLearner(Guarded, Learner, kind="learner"):
    """A learner, which usually is what runs out of memory."""

    def now(self, call: Call, given: tuple[Any, ...]) -> Any:
        try:
            return super().now(call, given)
        except PluginError as error:
            cause = error.__cause__
            if not isinstance(cause, MemoryError) and type(cause).__name__ != "OutOfMemoryError":
                raise
            number = f" number {int(given[0].folder.name)}" if call.name == "update" else ""
            raise AgentfwError(
                f"{self.guard.title} ran out of memory in {call.title}{number}: {cause}".rstrip(": "),
                fix="set what lowers the learner's need of memory (see its settings: agentfw plugins show "
                f"{self.guard.name}), begin a new training with fewer tasks or samples per update, or stop other "
                "programs that use the memory",
            ) from cause


class GuardedTool(Guarded, Tool, kind="tool"):
    """A tool, which has a timeout of its own, and whose failures are answers."""

    def take_attributes(self, component: Any) -> None:
        super().take_attributes(component)
        self.action = struck(self.action)
        name = self.action.name
        self._call = f"the tool {name}"
        self._row = self.guard.counts.row("tool", name, f"{self._call} of {self.guard.title}")

    async def later(self, call: Call, given: tuple[Any, ...]) -> Any:
        began, well = time.monotonic(), False
        try:
            with self.guard.calling(self._call):
                well, text = await self._inside.answer(*given)
                wrong = f"answered {self._call} with a {type(text).__name__}, not text"
                self.guard.require(isinstance(text, str), wrong)
        finally:
            self._row.count(time.monotonic() - began, failed=not well)
        text, title = strike(text), f"{self.guard.title}, {self._call},"
        return bool(well), text if self.shorten is None else self.shorten(text, title)


@contextmanager
def timed(tell: Callable[[dict[str, Any]], object]) -> Iterator[None]:
    """Tell when the `with` block began and ended, and the error that ended it: the fields of an operation."""
    began, error = time.time(), ""
    try:
        yield
    except BaseException as failure:
        error = type(failure).__name__
        raise
    finally:
        tell({"began": began, "ended": time.time(), "error": error})


class Traced(Layer):
    """The component, called on behalf of one episode."""

    def __init__(self, component: Any, name: str, trace: Trace, task: Task | None = None) -> None:
        self.inside, self.name, self.trace, self.task = component, name, trace, task
        self.take_attributes(component)

    async def later(self, call: Call, given: tuple[Any, ...]) -> Any:
        if (operation := call.operation) is None:
            return self.with_tools(call, given, await super().later(call, given))
        found = None
        with timed(lambda times: self.trace(operation(self.name, self.task, given, found, times))):
            found = await super().later(call, given)
        return found

    def around_tool(self, tool: Any, given: tuple[Any, ...]) -> Any:
        return traced("tool", tool, tool.action.name, self.trace, given[0])


def traced(kind: str, component: Any, name: str, trace: Trace, task: Task | None = None) -> Any:
    """The component, of whose calls `trace` is told. A tool belongs to the episode of a task."""
    return layered(Traced, kind)(component, name, trace, task)


class MemoryThread:
    """The thread of a run's memories."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agentfw memories", daemon=True)
        self._thread.start()

    def beside(self, memory: Memory) -> Memory:
        """The memory, called in this thread."""
        made: Memory = layered(_Beside, "memory")(memory, self)
        return made

    def close(self) -> None:
        """End the thread, whose memories are closed by then. One that waits for ever ends with the process."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            return
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def start(self, call: Call, component: Any, given: tuple[Any, ...]) -> concurrent.futures.Future[Any]:
        """Make a call in the thread, whether it is awaited or not."""

        async def called() -> Any:
            found = call.on(component, given)
            return await found if isawaitable(found) else found

        return asyncio.run_coroutine_threadsafe(called(), self._loop)


class _Beside(Layer):
    def __init__(self, component: Any, thread: MemoryThread) -> None:
        self.inside, self._thread = component, thread
        self.take_attributes(component)

    async def later(self, call: Call, given: tuple[Any, ...]) -> Any:
        found = await asyncio.wrap_future(self._thread.start(call, self._inside, given))
        return self.with_tools(call, given, found)

    def now(self, call: Call, given: tuple[Any, ...]) -> Any:
        started = self._thread.start(call, self._inside, given)
        if not call.posted:
            return self.with_tools(call, given, started.result())

        def log_failure(done: concurrent.futures.Future[Any]) -> None:
            if (error := done.exception()) is not None:
                logger.warning("a memory failed where an episode begins: %s", error, exc_info=error)

        started.add_done_callback(log_failure)
        return None

    def around_tool(self, tool: Any, given: tuple[Any, ...]) -> Any:
        return layered(_Beside, "tool")(tool, self._thread)
