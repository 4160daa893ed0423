"""The gateway as several replicas on Ray Serve: `agentfw serve --engine ray`.

Ray Serve listens, gives each request to a replica that has few, and replaces a replica that dies. It starts and ends
replicas by how many requests are in progress, and lets one that it ends finish what it has begun. Each replica is a
gateway with a run of its own, as `agentfw serve` is. They share their sessions, so any of them answers in any session.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentfw import Host
from agentfw.engine import EngineSettings, Resources, make_engine
from agentfw.errors import MissingExtraError, UsageError
from agentfw.host import HostOptions, find_project
from agentfw.printing.out import Out, counted
from agentfw.runs import LiveRun, assemble, parse_spec, resolve

from .health import log_as_json, logger
from .live import Limits, Stop, answers_at_once, gateway_of, limits_of, spec_values
from .sessions.session_store import SessionStore

if TYPE_CHECKING:
    from starlette.applications import Starlette

_NAME = "agentfw"
"""The application on Ray Serve."""
_ADDRESS = "RAY_ADDRESS"
"""Ray's own variable. Without it, Ray starts on this machine."""


class Recipe(NamedTuple):
    """All that a replica is made of, wherever it starts."""

    values: Mapping[str, Any]
    """Of the spec."""
    plugins: Mapping[str, Any]
    """Which plugins its host loads."""
    runs: str
    limits: Limits
    names: Sequence[str]
    at_once: int | None
    json_log: bool


def application(recipe: Recipe) -> Starlette:
    """A gateway that begins a run at the start of its lifespan, and closes it at the end."""
    from starlette.applications import Starlette

    from .learning.command import learning_of

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if recipe.json_log:
            log_as_json()
        host = Host.load(HostOptions.from_plain(recipe.plugins))
        live = LiveRun.create(parse_spec(recipe.values), host, Path(recipe.runs))
        live.keeps = False
        limits = limits_of(live, recipe.limits, recipe.names, recipe.at_once)
        # It serves what gateways with --learn have learned that share these sessions.
        learning = learning_of(
            live, False, every=1, spec=None, canary=None, metric="", shared=limits.shared, tell=logger.info
        )
        async with live, gateway_of(live, limits, learning) as (gateway, health, caring):
            app.state.health, app.state.caring = health, caring
            app.mount("/", gateway.app)
            yield
            health.is_stopping = True

    return Starlette(lifespan=lifespan)


class Replica:
    """What Ray Serve asks a replica besides requests."""

    app: Starlette

    def check_health(self) -> None:
        """Raise if this replica takes no requests any more: Ray Serve replaces it."""
        state = self.app.state
        if state.caring.done():
            state.caring.result()
        if state.health.hindrance:
            raise RuntimeError(state.health.hindrance)


def serve_replicas(
    runs: Path,
    given: Mapping[str, Any],
    limits: Limits,
    host: str,
    port: int,
    replicas: str,
    *,
    names: Sequence[str],
    at_once: int | None,
    json_log: bool,
    out: Out,
) -> None:
    """Serve until SIGTERM or Ctrl-C. Answers in progress then have `limits.drain` seconds to end."""
    least, most = _range(replicas)
    if not limits.shared:
        raise UsageError(
            "replicas on Ray answer in the same sessions, so they need a place to share them",
            fix="add --sessions postgresql://..., or a file if all replicas are on this machine",
        )
    address = os.environ.get(_ADDRESS, "")
    if "://" not in limits.shared:
        limits = limits._replace(shared=os.path.abspath(limits.shared))
        if address:
            raise UsageError(
                f"--sessions {limits.shared} is a file, which the nodes of the cluster {address} don't share",
                fix="use --sessions postgresql://...",
            )
    options = HostOptions.from_environment(project=find_project())
    plugins = Host.load(options)
    values = spec_values(plugins, runs, **given)
    assembly = assemble(resolve(parse_spec(values), plugins)[0], plugins)  # what is wrong with it, is told here
    at_once = at_once or answers_at_once(assembly)
    SessionStore(limits.shared).close()
    recipe = Recipe(values, options.plain(), os.path.abspath(runs), limits, names, at_once, json_log)
    # Ray gives its listener 5 seconds to start, which are too few on a busy machine.
    os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60")
    engine = make_engine(EngineSettings(name="ray", address=address))
    try:
        engine.require([Resources()] * least, counted(least, "gateway replica"))
        with out.progress("starting"):
            url = _started(recipe, host, port or _free_port(host), least, most, reserved=bool(address))
        if out.json:
            out.data({"url": url, "folder": recipe.runs})
        else:
            out.line(f"{url}/s/SESSION/v1   {assembly.spec.policy.name}   {least} to {most} replicas on Ray")
        out.stream.flush()
        try:
            asyncio.run(_stopped())
        finally:
            _end()
    finally:
        engine.close()


def _started(recipe: Recipe, host: str, port: int, least: int, most: int, *, reserved: bool) -> str:
    """Start the replicas, wait until they answer, and return the address."""
    try:
        from ray import serve
        from ray.serve.config import AutoscalingConfig, HTTPOptions
        from ray.serve.schema import LoggingConfig
    except ImportError as error:
        raise MissingExtraError("replicas on Ray", "ray", module=error.name or "") from error
    limits, at_once = recipe.limits, recipe.at_once or 1
    # Paths and headers can have what must not be written anywhere.
    quiet = LoggingConfig(enable_access_log=False, log_level="WARNING")
    serve.start(http_options=HTTPOptions(host=host, port=port, keep_alive_timeout_s=75), logging_config=quiet)
    replica = serve.ingress(lambda: application(recipe))(Replica)
    deployment = serve.deployment(
        name=_NAME,
        autoscaling_config=AutoscalingConfig(min_replicas=least, max_replicas=most, target_ongoing_requests=at_once),
        max_ongoing_requests=at_once + limits.queue,
        graceful_shutdown_timeout_s=limits.drain,
        graceful_shutdown_wait_loop_s=0.1,
        ray_actor_options={"num_cpus": 1 if reserved else 0},
    )
    serve.run(deployment(replica).bind(), name=_NAME, route_prefix="/", logging_config=quiet)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _end() -> None:
    """End the replicas, after what they have begun."""
    from ray import serve

    with suppress(KeyboardInterrupt):
        serve.delete(_NAME)
    serve.shutdown()  # type: ignore[no-untyped-call]


async def _stopped() -> None:
    stop, loop = Stop(), asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop.set)
    await stop.wait()


def _range(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    least = int(found[1]) if found else 0
    most = int(found[2] or least) if found else 0
    if not 1 <= least <= most:
        raise UsageError(f"--replicas {text} is no number of replicas", fix="use a number, or a range such as 2-8")
    return least, most


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as listener:
        return int(listener.getsockname()[1])
