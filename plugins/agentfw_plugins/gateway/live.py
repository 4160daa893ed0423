"""Runs the gateway in front of a live run, until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentfw import Host
from agentfw.host import HostOptions, find_project
from agentfw.runs import LiveRun, apply_assignments, find_run, parse_spec, read_spec
from agentfw.settings import parse_assignments

from .app import Gateway
from .desk import LiveDesk
from .page import Page
from .server import serving

__all__ = ["Limits", "opened", "serve_until"]


class Limits(NamedTuple):
    """Who is served, and how much."""

    models: Sequence[str] = ()
    keys: Sequence[str] = ()
    idle: float = 3600.0
    sessions: int = 10_000
    body: int = 8_000_000


def opened(
    runs: Path,
    resume: str | None = None,
    *,
    start: str = "serve",
    again: bool = False,
    policy: str | None = None,
    memories: Sequence[str] = (),
    tools: Sequence[str] = (),
    rewards: Sequence[str] = (),
    assignments: Sequence[str] = (),
    spec: Path | None = None,
) -> LiveRun:
    """A new live run, or one of an earlier process. It starts from the spec `start`."""
    host = Host.load(HostOptions.from_environment(project=find_project()))
    if resume:
        return LiveRun.open(find_run(runs, resume), host)
    shipped = read_spec(Path(host.find_spec(start).path))
    values: dict[str, Any] = {**(read_spec(spec) if spec else shipped), "environment": shipped["environment"]}
    if policy:
        before = values.get("policy")
        same = isinstance(before, dict) and before.get("name") == policy
        values["policy"] = before if same else {"name": policy}
    if memories:
        values["memories"] = list(memories)
    if tools:
        named = [text.partition("=") for text in tools]
        values["tools"] = [{"name": name, **({"alias": alias} if alias else {})} for name, _, alias in named]
    if rewards:
        values["rewards"] = list(rewards)
    values = apply_assignments(values, parse_assignments(assignments))
    return LiveRun.create(parse_spec(values), host, runs, again=again)


async def serve_until(
    stop: asyncio.Event, live: LiveRun, host: str, port: int, limits: Limits, ready: Callable[[str], object]
) -> None:
    """Serve until the event is set, then end all sessions. `ready` is given the address."""
    async with live:
        desk = LiveDesk(live, most=limits.sessions, idle=limits.idle)
        page = Page(desk, max_body=limits.body)
        gateway = Gateway(desk, models=limits.models, keys=limits.keys, max_body=limits.body, page=page)
        async with serving(gateway.app, host, port) as url:
            caring = asyncio.create_task(desk.end_idle())
            ready(url)
            waiting = asyncio.create_task(stop.wait())
            # A failure to end a session, such as a full disk, is no reason to go on as if nothing had happened.
            await asyncio.wait([waiting, caring], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if caring.done():
                caring.result()
            caring.cancel()
        await gateway.finish()
        for session in list(live.sessions.values()):
            await live.conclude(session, "closed")
