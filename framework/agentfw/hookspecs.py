# A hookspec has a docstring and no body: what it returns is what plugins return.
# mypy: disable-error-code="empty-body"
"""The hooks that a plugin may implement. The page Hooks of the documentation is made from the docstrings here.

A registration hook returns light descriptions and does no work. An observer hook is told what happened, gets copies and
returns nothing. A deciding hook changes what happens: the first answer that isn't None counts. A hook takes as many of
the arguments below as it wants, by these names.

    from agentfw import Component, hookimpl
    from agentfw.hookspecs import Verdict

    @hookimpl
    def agentfw_tools():
        return [Component("dice", "my_plugin.dice:Dice", "Rolls dice")]

    @hookimpl
    def agentfw_before_call(call):
        return Verdict("refuse", "not on Sundays") if call.name == "send_mail" else None

The hooks of a plugin are called in every run. Those of a `Hook`, a component of the kind `hook`, are called in the runs
that name it, and it may have settings.

Hooks are called in pluggy's order: `tryfirst` and `trylast` hold, and later plugins come before earlier ones. Only
deciding hooks may be wrappers (`@hookimpl(wrapper=True)`), and those that the run can wait for may be coroutines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from pluggy import HookimplMarker, HookspecMarker

from .component import KINDS, Component, Kind

if TYPE_CHECKING:
    from .episode import Call, Episode, Task, Turn, Usage
    from .request import Request
    from .scores import Score

__all__ = [
    "DECIDING_HOOKS",
    "HOOKS",
    "KNOWN_PLUGINS_HOOK",
    "LIFECYCLE_HOOKS",
    "OLDEST_PLUGIN_API",
    "PLUGIN_API",
    "REGISTRATION_HOOKS",
    "SPECS_HOOK",
    "Hook",
    "KnownPlugin",
    "NamedSpec",
    "ObservedRun",
    "RunResults",
    "Verdict",
    "hookimpl",
    "hookspec",
]

PLUGIN_API = 1
"""Value for a plugin's `AGENTFW_PLUGIN_API`. It is increased when a hook changes in a way that breaks plugins."""
OLDEST_PLUGIN_API = 1
"""The oldest value that plugins may have. It follows `PLUGIN_API` by one version, in which what goes is deprecated."""

REGISTRATION_HOOKS: dict[str, str] = {kind.hook: kind.name for kind in KINDS.values()}
"""The registration hooks, and the kind that each one registers."""

SPECS_HOOK = "agentfw_specs"
KNOWN_PLUGINS_HOOK = "agentfw_known_plugins"

LIFECYCLE_HOOKS = (
    "agentfw_run_started",
    "agentfw_turn",
    "agentfw_answered",
    "agentfw_episode_done",
    "agentfw_scored",
    "agentfw_updated",
    "agentfw_run_finished",
)

DECIDING_HOOKS = ("agentfw_request", "agentfw_before_call", "agentfw_record")

HOOKS = (*REGISTRATION_HOOKS, SPECS_HOOK, KNOWN_PLUGINS_HOOK, *LIFECYCLE_HOOKS, *DECIDING_HOOKS)

hookspec = HookspecMarker("agentfw")
hookimpl = HookimplMarker("agentfw")


class NamedSpec(NamedTuple):
    """A run-spec file that a plugin ships."""

    name: str
    path: str
    """Absolute path: `str(Path(__file__).parent / "default.toml")`."""
    summary: str


class KnownPlugin(NamedTuple):
    """A distribution that may not be installed, and what it offers."""

    name: str
    """Name of the distribution, as pip knows it."""
    offers: Mapping[str, Sequence[str]]
    """Offered names by kind: a kind of component such as "environment", or "spec", or "command"."""
    folder: str = ""
    """Where it is in the source tree of the distribution that knows it, if it is there."""


class Hook:
    """Base class of components of the kind `hook`: its methods that are marked with `hookimpl` are hooks."""

    changes_requests: ClassVar[bool] = True
    """Whether its `agentfw_request` may answer with another request. A gateway then translates what it would otherwise
    pass on as a program wrote it."""


class Verdict(NamedTuple):
    """What becomes of a call."""

    does: Literal["allow", "refuse", "answer", "ask"]
    """`refuse` tells the agent `text`. `answer` gives it `text` as if the tool had. `ask` asks a person first."""
    text: str = ""
    """The words of a refusal, the answer, or the question."""
    seconds: float = 300.0
    """How long a person has to answer. The call is refused then."""


class ObservedRun(Protocol):
    """The run that a hook is told of, as `agentfw.runs.RunInfo` describes it."""

    @property
    def id(self) -> str: ...
    @property
    def folder(self) -> Any: ...
    @property
    def spec(self) -> Any: ...


class RunResults(Protocol):
    """The results of a run, as `agentfw.runs.Summary` describes them."""

    @property
    def figures(self) -> Mapping[str, Any]: ...
    def to_record(self) -> dict[str, Any]: ...


def _registration(kind: Kind) -> Callable[[], list[Component]]:
    """The hook that registers the components of a kind."""

    def register() -> list[Component]:
        return []

    components = f"{kind.title.removesuffix('y')}ies" if kind.title.endswith("y") else f"{kind.title}s"
    article = "an" if kind.title[0] in "aeiou" else "a"
    named = "" if kind.name == kind.title else f' On the command line its kind is "{kind.name}".'
    register.__name__ = register.__qualname__ = kind.hook
    register.__doc__ = f"""Register {components}: {kind.summary}.

    Called: once, when the host loads, before any command does its work.
    With: nothing.
    Returns: a list of Component; the factory makes {article} {kind.title}.{named}
    Combined: all lists are joined. Of two with the same name a built-in wins; DISTRIBUTION:NAME selects either.
    Since: 0.1
    """
    return hookspec(register)


# The host and the documentation find all hooks by their names in this module.
globals().update({kind.hook: _registration(kind) for kind in KINDS.values()})


@hookspec
def agentfw_specs() -> list[NamedSpec]:
    """Register spec files that a user can run by name. `agentfw run` without arguments runs the one named "default".

    Called: once, when the host loads, before any command does its work.
    With: nothing.
    Returns: a list of NamedSpec, each with the absolute path of a file; environments without their own use "any".
    Combined: all lists are joined. Of two with the same name a built-in wins; DISTRIBUTION:NAME selects either.
    Since: 0.1
    """


@hookspec
def agentfw_known_plugins() -> list[KnownPlugin]:
    """Name other distributions and what they offer, so that an error about a missing name says what to install.

    Called: once, when the host loads, before any command does its work.
    With: nothing.
    Returns: a list of KnownPlugin. They are not imported, and need not be installed.
    Combined: all lists are joined; the first distribution that offers a name is suggested.
    Since: 0.2
    """


@hookspec
def agentfw_run_started(run: ObservedRun) -> None:
    """Observe the start of a run.

    Called: once per run, after its folder and all components are created; again when it is resumed.
    With: run, the run that starts: its id, its folder and its spec.
    Returns: nothing.
    Combined: return values are ignored. A plugin that raises is noted once and not called again in this run.
    Since: 0.1
    """


@hookspec
def agentfw_turn(run: ObservedRun, episode_id: str, turn: Turn) -> None:
    """Observe each turn of the policy.

    Called: after each turn of the policy, as soon as its tokens are recorded.
    With: run; episode_id, the episode that the turn belongs to; turn, with exact tokens, logprobs and mask.
    Returns: nothing.
    Combined: return values are ignored. A plugin that raises is noted once and not called again in this run.
    Since: 0.1
    """


@hookspec
def agentfw_answered(run: ObservedRun, request: Request, model: str, usage: Usage, counted: bool) -> None:
    """Observe the end of each request to a policy, also of one that failed or was stopped.

    Called: once for each call of `agentfw_request`, in the same asyncio task, before the answer is recorded.
    With: run; request, as it was asked; model; usage; counted, whether the server counted it or it is estimated.
    Returns: nothing.
    Combined: return values are ignored. A plugin that raises is noted once and not called again in this run.
    Since: 0.2
    """


@hookspec
def agentfw_episode_done(run: ObservedRun, episode: Episode) -> None:
    """Observe finished episodes.

    Called: once per episode, after it is on disk; in a training, also for evaluation episodes.
    With: run; episode, complete, not yet scored.
    Returns: nothing.
    Combined: return values are ignored. A plugin that raises is noted once and not called again in this run.
    Since: 0.1
    """


@hookspec
def agentfw_scored(run: ObservedRun, scores: Sequence[Score]) -> None:
    """Observe scores.

    Called: after a group of episodes is scored; again if that group was interrupted and resumed.
    With: run; scores, all scores of that group, in no particular order.
    Returns: nothing.
    Combined: return values are ignored. A plugin that raises is noted once and not called again in this run.
    Since: 0.1
    """


@hookspec
def agentfw_updated(run: ObservedRun, version: str, metrics: Mapping[str, float]) -> None:
    """Observe updates of the policy.

    Called: after each update with a new version, once it is on disk, published, and verified as served.
    With: run; version, the new version; metrics, the learner's figures by name.
    Returns: nothing.
    Combined: return values are ignored. A plugin that raises is noted once and not called again in this run.
    Since: 0.1
    """


@hookspec
def agentfw_run_finished(run: ObservedRun, summary: RunResults) -> None:
    """Observe the end of a run.

    Called: once, when a run is complete; not when it failed or was interrupted.
    With: run; summary, the metrics of the run; for a training, those of its last evaluation.
    Returns: nothing.
    Combined: return values are ignored. A plugin that raises is noted once and not called again in this run.
    Since: 0.1
    """


@hookspec(firstresult=True)
def agentfw_request(run: ObservedRun, request: Request, model: str, most: Callable[[], Usage]) -> Request | None:
    """Change what a policy is asked, or keep it from being asked by raising an error of `agentfw.errors`.

    Called: before each request to a policy of the run, its teacher included; not for judges.
    With: run; request, with its task and user; model, the name; most, which says what the answer takes at most.
    Returns: the request to ask instead, or None. May be a coroutine.
    Combined: the first answer counts, and wrappers may change it. A hook that raises or hangs fails the request.
    Since: 0.2
    """


@hookspec(firstresult=True)
def agentfw_before_call(run: ObservedRun, task: Task, call: Call) -> Verdict | None:
    """Allow a tool call, refuse it, ask a person, or answer in the place of the tool.

    Called: before each tool call that a model made. A gateway asks before it passes calls on to a program.
    With: run; task, for the episode and its user; call, with its name, arguments and id.
    Returns: a Verdict, or None. May be a coroutine.
    Combined: the first answer counts, and wrappers may change it. A hook that raises or hangs fails the episode.
    Since: 0.2
    """


@hookspec(firstresult=True)
def agentfw_record(run: ObservedRun, record: dict[str, Any]) -> dict[str, Any] | None:
    """Change what is recorded of an episode: redact it, or add to it.

    Called: before an episode, or what is new in a session, is written. Scores and learning use what was written.
    With: run; record, as `Episode.to_record()` makes it, which the hook may change.
    Returns: the record to write instead, or None. Not a coroutine.
    Combined: the first answer counts, and wrappers may change it. A hook that raises stops the run; nothing is written.
    Since: 0.2
    """
