"""The environment interface: a world with a state of its own, interventions that change it, and observations.

An environment never waits and never looks at a wall clock. It schedules what will happen with the `World` that it is
given.

    class Kettle(Environment):
        \"\"\"Boil water, and take it off in time.\"\"\"

        def begin(self, world: World, task: Task) -> None:
            self.world = world

        @action
        def heat(self) -> None:
            \"\"\"Put the kettle on; it boils after three minutes.\"\"\"
            self.world.after(3, lambda: self.world.observe("boils"))

        @action(takes=1)
        def pour(self) -> None:
            \"\"\"Pour the tea.\"\"\"
            self.world.utility(1.0, "tea")
            self.world.finish()

Actions are typed methods: the JSON schema that a model reads comes from the annotations and the docstring, and the
arguments that a model gives are checked against it before the method is called. An action that takes time (`takes=`)
holds the agent's attention for that long and has its effect at the end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from inspect import cleandoc
from typing import Any, NamedTuple, Protocol, TypeVar, overload

from .episode import Episode, Intervention, Observation, Task, Turn
from .errors import InterventionRefused, nearest, not_implemented
from .request import Action, Brief, Moment
from .seeds import Seeds
from .timeline import Scheduled, Time, Timeline, Work
from .tool import FunctionSpec, describe

Method = TypeVar("Method", bound=Callable[..., Any])


class World(Protocol):
    """The environment's side of an engagement: the clock, randomness, and ways to report."""

    timeline: Timeline
    """The clock itself, for modules that take a seat of their own."""
    episode: Episode
    seeds: Seeds
    """Generators of this episode that do not depend on what the agent does elsewhere."""

    @property
    def now(self) -> Time: ...

    def random(self, name: str) -> random.Random: ...
    def at(self, time: Time, call: Callable[[], object]) -> Scheduled: ...
    def after(self, delay: Time, call: Callable[[], object]) -> Scheduled: ...
    def cancel(self, entry: Scheduled) -> None: ...

    def work(
        self, name: str, duration: Time, finished: Callable[[Work], object] | None = None, *, holds: bool = True
    ) -> Work:
        """Start work that takes time. While work that `holds` is running, the agent is busy.

        A duration of infinity lasts until its `complete` is called.
        """
        ...

    def observe(self, name: str, data: Mapping[str, Any] | None = None, *, text: str = "") -> None:
        """Report an observation. The interface decides when the agent sees it."""
        ...

    def utility(self, value: float, reason: str) -> None: ...

    def measure(self, name: str, value: float) -> None:
        """Record a figure for tables and curves. It is not a reward."""
        ...

    def round(self, number: int, of: int) -> None:
        """Begin round `number` of `of`, counted from 1. Turns and scores have the number of their round."""
        ...

    def finish(self, **outcome: float) -> None:
        """End the episode with these figures."""
        ...


class Environment:
    """Base class of environments. Only `begin` must be implemented."""

    headline: str = "utility"
    """Name of the main figure: `utility`, or one of the outcome's names. Charts and tables begin with it."""
    lower_is_better: bool = False
    """Whether a lower headline is better, as with an error or a cost."""
    columns: Mapping[str, str] = {}
    """Columns of a run's table: figures with their headings, in order. Empty: all figures are listed."""
    meanings: Mapping[str, str] = {}
    """Short explanations of figures whose names don't explain themselves. They are printed below the table."""
    time_unit: str = ""
    """What a unit of time is, such as `hours`. Timelines say it."""
    demonstrate: Callable[[Moment], Iterable[Intervention | str]] | None = None
    """A simple rule for this world, usually a method: what to do at a moment. The policy `scripted` follows it, and
    `agentfw run ENVIRONMENT` plays it where the world ships no spec."""

    def begin(self, world: World, task: Task) -> None:
        """Set up the episode that `task` names and schedule the first things that happen."""
        raise not_implemented(self, "begin")

    def goal(self) -> str:
        """Instructions for the agent. Default: the docstring of the class."""
        return cleandoc(type(self).__doc__ or "")

    def brief(self) -> Brief:
        specs = [marked.spec for marked in _actions(type(self)).values()]  # type: ignore[arg-type]
        actions = tuple(Action(spec.name, spec.description, spec.parameters) for spec in specs)
        return Brief(self.goal(), actions, self.time_per_token(), self.demonstrate)

    def profile(self) -> Mapping[str, str]:
        """What is known of the task's user before anything happens, in words, by view such as `about`.

        It is asked for once the episode has begun.
        """
        return {}

    def time_per_token(self) -> float:
        return 0.0

    def intervene(self, intervention: Intervention) -> None:
        """Carry out one intervention: by default, the method of that name marked with `@action`."""
        # What the method returns is passed on for a check alone: a coroutine would be an action that never happens.
        known = _actions(type(self))  # type: ignore[arg-type]
        if (marked := known.get(intervention.name)) is None:
            guess = nearest(intervention.name, known)
            hint = f'; did you mean "{guess}"?' if guess else f"; there is: {', '.join(sorted(known))}"
            raise InterventionRefused(f'there is no action "{intervention.name}"{hint}')
        arguments = marked.spec.check(intervention.arguments)
        method = getattr(self, marked.attribute)
        takes = marked.takes(self) if callable(marked.takes) else marked.takes
        if takes is None:
            return method(**arguments)  # type: ignore[no-any-return]
        world: World | None = getattr(self, "world", None)
        if world is None:
            wrong = f"{type(self).__name__}.begin must keep its world as self.world to have actions that take time"
            raise TypeError(wrong)
        world.work(intervention.name, takes, lambda work: method(**arguments))
        return None

    def turned(self, turn: Turn) -> None:
        """The agent has had a turn, and what it did has taken effect; calls of tools may still be under way.

        A world that gives an agent so many turns counts them here, and may speak up when nothing came of one.
        """

    def outcome(self) -> Mapping[str, float]:
        """Figures of the episode when it ended without `world.finish`, by the horizon or a limit."""
        return {}

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        """The episodes of a run. Override to spread them over users or to read them from a data set."""
        seeds = Seeds(seed).child(split)
        return [Task(index, seeds.integer("task", index), split=split) for index in range(count)]

    def describe(self, tasks: Sequence[Task]) -> str:
        """A short description of these tasks, for the first line of a run. Default: the number of episodes."""
        return ""

    def references(self, task: Task) -> Mapping[str, Mapping[str, float]]:
        """Results of simple players in this episode: by name, the same figures as in an outcome.

        A run asks for them when all episodes are played, and shows them beside its own figures. Computing them should
        take milliseconds.
        """
        return {}

    def reflex(self, observation: Observation) -> Iterable[Intervention]:
        """The immediate reaction to an observation. Only the interface `reflex` uses it."""
        return ()


@overload
def action(method: Method) -> Method: ...
@overload
def action(*, takes: Time | Callable[[Any], Time] | None = None, name: str = "") -> Callable[[Method], Method]: ...
def action(
    method: Method | None = None, *, takes: Time | Callable[[Any], Time] | None = None, name: str = ""
) -> Method | Callable[[Method], Method]:
    """Mark a method as something an agent can do. `takes` is its duration, or a function of the environment."""

    def mark(function: Method) -> Method:
        function.__agentfw_action__ = (name or function.__name__, takes)  # type: ignore[attr-defined]
        return function

    return mark if method is None else mark(method)


class _Marked(NamedTuple):
    spec: FunctionSpec
    attribute: str
    takes: Time | Callable[[Any], Time] | None


@cache
def _actions(kind: type) -> dict[str, _Marked]:
    """The actions of an environment class, described once."""
    found = {}
    for attribute in dir(kind):
        method: Any = getattr(kind, attribute, None)
        if (marked := getattr(method, "__agentfw_action__", None)) is not None:
            spec = describe(method, name=marked[0], skip_first=True)
            found[spec.name] = _Marked(spec, attribute, marked[1])
    return found
