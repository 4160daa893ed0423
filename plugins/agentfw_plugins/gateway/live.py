"""Runs the gateway: in front of a live run until it is told to stop, or for the programs that an event loop runs."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from agentfw import Host, Policy, Session
from agentfw.boundary.settings_input import marked_keys, parse_assignments
from agentfw.errors import SettingsError, UsageError
from agentfw.printing.out import shown_path
from agentfw.runs import (
    Again,
    Choice,
    LiveRun,
    SpecValues,
    apply_assignments,
    chosen_values,
    find_run,
    parse_spec,
    policy_of_run,
    read_spec,
)
from agentfw.settings import VERSION

from ..hooks.redact import Redact
from ..models.checkpoint import version_name
from ..serving import serving
from .answering import OWN, Answers, Line, Model, Models
from .app import Gateway
from .handling import Callers
from .health import Front, Health
from .keys import KeyFile, Keys
from .learning.learning import Learning
from .page import Logins, Page
from .sessions.session_finder import CLOSED, LiveSessionFinder, OpenSessionFinder
from .spans import Spans
from .variants import FILE as VARIANTS
from .variants import VariantFile

_COUNTS = "budget"  # the hook that every gateway has, limits or not
_TOLD_TO_END = 2.0  # seconds within which a process that is told to end says that it does
_PASSED_ON = 1000  # maximum number of answers at once in front of a provider, who has limits of its own


class Limits(NamedTuple):
    models: Sequence[str] = ()
    keys: Sequence[str] = ()
    key_file: Path | None = None
    idle: float = 3600.0
    sessions: int = 10_000
    concurrency: int = 64
    queue: int = 1000
    queue_timeout: float = 60.0
    drain: float = 30.0
    shared: str = ""
    """Where the sessions are that other gateways lead, too."""
    keep_ended: float | None = None
    """Seconds that shared sessions are kept after their end. None: they stay."""
    upstream_key: Literal["own", "either", "callers"] = "own"
    """Whose key requests are passed on with, as in `Forwarded`."""
    hosts: Sequence[str] = ()
    """Names of the gateway under which a browser may log in, besides those of this machine."""
    once: str = ""
    """What a browser can log in with once."""
    default_user: str = ""
    """Who asks where a request names nobody. Empty: nobody."""


class Stop:
    """Tells a gateway to stop. Told twice, it doesn't wait for the answers in progress."""

    def __init__(self) -> None:
        self.told, self.hurry, self.keeps_sessions = asyncio.Event(), asyncio.Event(), False

    def set(self, *, keeps_sessions: bool = False) -> None:
        """Stop. Sessions end, or are kept for a process that continues the run."""
        if self.told.is_set():
            self.hurry.set()
        else:
            self.keeps_sessions = keeps_sessions
            self.told.set()


def opened(runs: Path, resume: str | None = None, *, again: Again = "", **given: Any) -> LiveRun:
    """A new live run of what is given (see `spec_values`), or one of an earlier process."""
    host = Host.load()
    if resume:
        return LiveRun.open(find_run(runs, resume), host)
    return LiveRun.create(parse_spec(spec_values(host, runs, **given)), host, runs, again=again)


def spec_values(
    host: Host,
    runs: Path,
    *,
    start: str = "serve",
    assignments: Sequence[str] = (),
    spec: Path | None = None,
    models: Sequence[str] = (),
    fallbacks: Sequence[str] = (),
    **options: Any,
) -> dict[str, Any]:
    """The plain values of the spec that is served. They are checked, and start from the spec `start`.

    The options are those of `chosen_values`. `models` are NAME=POLICY, and `fallbacks` NAME=OTHER, where `agentfw` is
    the policy of the run.
    """
    shipped = read_spec(Path(host.find_spec(start).path))

    def started(host: Host, name: str | None, file: Path | None) -> SpecValues:
        given = read_spec(file) if file else shipped
        return SpecValues({}).then(f"spec {start}", {**given, "environment": shipped["environment"]})

    values: dict[str, Any] = chosen_values(host, started, None, spec, runs=runs, options=options)
    hooks = values.get("hooks", ())
    if start == "serve" and _COUNTS not in [each if isinstance(each, str) else each["name"] for each in hooks]:
        values = {**values, "hooks": [*hooks, _COUNTS]}
    if models:
        values = {**values, "models": [_model(text, host, runs) for text in models]}
    values = apply_assignments(values, parse_assignments(assignments))
    for text in fallbacks:
        name, _, other = text.partition("=")
        known = values.get("models", ())
        if name == OWN:
            values = {**values, "fallback": other}
        elif other and name in [one.get("alias") for one in known]:
            known = [{**one, "fallback": other} if one["alias"] == name else one for one in known]
            values = {**values, "models": known}
        else:
            raise UsageError(f"--fallback {text}: there is no model {name}", fix="write --fallback NAME=OTHER")
    parsed = parse_spec(values)
    if parsed.policy.name == "scripted" and not {"rule", "replies"} & parsed.policy.settings.keys():
        raise SettingsError(
            "the policy scripted has nothing to answer with: whoever asks a gateway brings no demonstration",
            fix="set policy.replies or policy.rule, such as: --set 'policy.replies=[\"Hello.\"]'",
        )
    return values


def served_models(live: LiveRun, names: Sequence[str], key: Literal["own", "either", "callers"] = "own") -> Models:
    """The models of a live run. `names` are those of its policy."""
    assembly, spec = live.assembly, live.assembly.spec
    # Where the gateway has to call tools of a memory itself, or a hook decides, it has to read each answer.
    acts = assembly.decisions.reads or any(memory.overrides("tools") for memory in assembly.memories)

    def model(choice: Choice, policy: Policy, name: str, fallback: str) -> Model:
        protocol, served = str(getattr(choice.checked, "protocol", "")), version_folder(choice)
        version, forwards = version_name(served) if served else "", policy.forwards and not acts
        return Model(name, assembly.surrounded(policy, name), forwards, fallback, protocol, version)

    own = model(spec.policy, assembly.policy, "", spec.fallback)
    pairs = zip(spec.models, assembly.models.values(), strict=True)
    others = [model(choice, policy, choice.alias, choice.fallback) for choice, policy in pairs]
    return Models(own, others, names=names, known=spec.policy.name, key=key)


def version_folder(choice: Choice) -> Path | None:
    """The folder of the version of a training that a policy answers with."""
    keys = marked_keys(type(choice.checked), VERSION) if choice.checked is not None else ()
    found = [str(value) for key in keys if (value := getattr(choice.checked, key, ""))]
    return Path(found[0]) if found else None


def limits_of(live: LiveRun, limits: Limits, names: Sequence[str], at_once: int | None) -> Limits:
    """The limits of a run's gateway, with the names that its policy is asked by, and how much it answers at once.

    Without names, these are its own and that of its model, or any if programs choose a model of a server.
    """
    policy = live.assembly.spec.policy
    if not names:
        model = str(getattr(policy.checked, "model", "") or "")
        names = ("agentfw", policy.name, Path(model).name)
        if served_models(live, ()).own.forwards and not model:
            names = ()
    # A policy in this process may set how much it answers at once.
    usual = _PASSED_ON if live.assembly.policy.forwards else getattr(policy.checked, "concurrency", limits.concurrency)
    return limits._replace(
        models=() if "any" in names else tuple(dict.fromkeys(name for name in names if name)),
        concurrency=at_once or int(usual),
    )


def _model(text: str, host: Host, runs: Path) -> dict[str, Any]:
    name, _, policy = text.partition("=")
    if not name or not policy:
        fix = "write --also NAME=POLICY, such as --also fast=openai"
        raise UsageError(f"--also {text}: there is no policy", fix=fix)
    chosen = policy_of_run(host, policy, runs)
    return {"alias": name, **(chosen if isinstance(chosen, dict) else {"name": chosen})}


async def serve_until(
    stop: Stop,
    live: LiveRun,
    host: str,
    port: int,
    limits: Limits,
    ready: Callable[[str], object],
    learning: Learning | None = None,
) -> None:
    """Serve until told to stop, let answers in progress end, and end the sessions or keep them.

    It listens before it reads the record, which may take long, and says so until then. `ready` is given the address.
    """
    front, live.keeps = Front(), not limits.shared
    async with (
        AsyncExitStack() as reading,  # is left when no request is in progress any more
        serving(front, host, port, drain=limits.drain, hurry=stop.hurry) as url,
    ):
        await reading.enter_async_context(live)

        async def end_sessions() -> None:
            for session in [] if stop.keeps_sessions else list(live.sessions.values()):
                await live.conclude(session, CLOSED)

        if live.keeps:
            reading.push_async_callback(end_sessions)
        gateway, health, caring = await reading.enter_async_context(gateway_of(live, limits, learning))
        front.app = gateway.app
        ready(url)
        waiting = asyncio.create_task(stop.told.wait())
        await asyncio.wait({waiting, caring}, return_when=asyncio.FIRST_COMPLETED)
        health.is_stopping = True
        live.folder.leave()
        waiting.cancel()
        if caring.done():
            caring.result()


@asynccontextmanager
async def gateway_of(
    live: LiveRun, limits: Limits, learning: Learning | None = None
) -> AsyncIterator[tuple[Gateway, Health, asyncio.Task[None]]]:
    """The gateway of an open run, its health, and the task of all it does besides answering, which ends if that fails.

    At the end, answers that are still in progress are cut off.
    """
    most, idle, patience = limits.sessions, limits.idle, limits.queue_timeout
    finder: LiveSessionFinder
    keys: Keys | None
    if limits.shared:
        from .sessions.shared_session_finder import SharedSessionFinder

        shared = partial(SharedSessionFinder, most=most, idle=idle, patience=patience, keep_ended=limits.keep_ended)
        finder = found = await asyncio.to_thread(shared, live, limits.shared)
        keys = found.keys
    else:
        finder = LiveSessionFinder(live, most=most, idle=idle, default_user=limits.default_user)
        keys = KeyFile(limits.key_file) if limits.key_file else None
    line = Line(at_once=limits.concurrency, waiting=limits.queue, patience=patience)
    health = Health(live, line)
    if learning is not None:
        await learning.ready()
        finder.reading.learning = learning
    callers = Callers(limits.keys, keys, own_header=limits.upstream_key == "callers")
    variants = VariantFile(live.folder.path.parent / VARIANTS)
    models = served_models(live, limits.models, limits.upstream_key)
    answers = Answers(finder, models, callers, line, learning=learning, variants=variants, counts=health.counts)
    page = Page(finder, Logins(callers, limits.hosts, limits.once))
    recording = live.assembly.decisions.hooks.implementations("agentfw_record")
    masked = next((one.plugin.struck for one in recording if isinstance(one.plugin, Redact)), None)
    gateway = Gateway(answers, page=page, health=health, spans=Spans(live.folder.path, masked))

    async def care() -> None:
        learns = [learning.run()] if learning is not None else []
        await asyncio.gather(finder.care(), finder.reading.decide(variants), *learns)

    caring = asyncio.create_task(care())
    try:
        yield gateway, health, caring
    finally:
        caring.cancel()
        await asyncio.wait([caring])
        await answers.finish(seconds=0)
        await finder.close()


async def until_free(live: LiveRun, stop: Stop, seconds: float, tell: Callable[[str], object]) -> None:
    """Wait while an earlier process that was told to end still works on the run, and tell which one."""
    begun, told = time.monotonic(), False
    while live.folder.state == "running" and not stop.told.is_set():
        if not (told or live.folder.owner.isdecimal()):
            told = True
            words = f"{shown_path(live.folder.path)}/ is in use by process {live.folder.owner}"
            tell(f"{words}; waiting {seconds:.0f} s for it")
        if time.monotonic() - begun > (seconds if told else _TOLD_TO_END):
            return
        await asyncio.sleep(0.1)


# -- for programs ------------------------------------------------------------------------------------------------------


class _Shared:
    """The gateway of one event loop, which is started with the first program and stopped with the last."""

    def __init__(self) -> None:
        self.users, self.url, self.lock, self.stack = 0, "", asyncio.Lock(), AsyncExitStack()
        self.finder = OpenSessionFinder()
        self.gateway = Gateway(Answers(self.finder, Models(), Callers(), Line(at_once=sys.maxsize)))


_OF_LOOP: WeakKeyDictionary[asyncio.AbstractEventLoop, _Shared] = WeakKeyDictionary()


@asynccontextmanager
async def reachable(session: Session) -> AsyncIterator[str]:
    """Let programs use a session while the block runs, and wait for the answers that are still in progress."""
    shared = _OF_LOOP.setdefault(asyncio.get_running_loop(), _Shared())
    async with shared.lock:
        shared.users += 1
        if shared.users == 1:
            shared.url = await shared.stack.enter_async_context(serving(shared.gateway.app, "127.0.0.1", 0))
    name = f"p-{secrets.token_hex(12)}"
    shared.finder.sessions[name] = session
    try:
        yield f"{shared.url}/s/{name}"
        await shared.gateway.answers.finish(session)
    finally:
        del shared.finder.sessions[name]
        async with shared.lock:
            shared.users -= 1
            if not shared.users:
                await shared.stack.aclose()
