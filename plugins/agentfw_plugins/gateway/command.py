"""`agentfw serve` and `agentfw feedback`.

    agentfw serve --policy transformers --set policy.model=path/to/model
    agentfw feedback SESSION good
    agentfw feedback SESSION --correction "It opens at nine." --turn 2

This module is imported for --help, so each command imports what it needs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.errors import AgentfwError, EndpointError, RunInUseError, SettingsError, UsageError
from agentfw.out import Out

from ..command_options import json_option

if TYPE_CHECKING:
    from agentfw.runs import LiveRun

__all__ = ["feedback", "serve"]

_KEY = "AGENTFW_KEY"
_PORT = 8765
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

_key_option = click.option(
    "--key-env", default=_KEY, show_default=True, metavar="NAME", help="Environment variable with the key."
)


@click.command()
@click.option("--policy", metavar="NAME", help="Policy that answers. Default: transformers.")
@click.option("--memory", "memories", multiple=True, metavar="NAME", help="Memory to use. Can be repeated.")
@click.option(
    "--tool", "tools", multiple=True, metavar="NAME[=ALIAS]", help="Tool to offer on the page. Can be repeated."
)
@click.option(
    "--reward", "rewards", multiple=True, metavar="NAME", help="Reward model to score with. Default: feedback."
)
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Change a setting. Can be repeated.")
@click.option("--spec", type=click.Path(path_type=Path), help="Spec file (TOML) to start from.")
@click.option("--runs", type=click.Path(path_type=Path), help="Directory of runs. Default: ./runs.")
@click.option("--resume", metavar="RUN", help="Continue the sessions of this run.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=_PORT, show_default=True, help="Port to listen on; 0 for any free one.")
@_key_option
@click.option(
    "--model", "models", multiple=True, metavar="NAME", help="Model name to answer to, or `any`. Can be repeated."
)
@click.option("--idle", default=3600.0, show_default=True, help="Seconds after which an unused session ends.")
@click.option("--max-sessions", default=10_000, show_default=True, help="Maximum number of sessions in progress.")
@click.option("--max-body", default=8_000_000, show_default=True, help="Maximum size of a request, in bytes.")
@json_option
def serve(
    policy: str | None,
    memories: tuple[str, ...],
    tools: tuple[str, ...],
    rewards: tuple[str, ...],
    assignments: tuple[str, ...],
    spec: Path | None,
    runs: Path | None,
    resume: str | None,
    host: str,
    port: int,
    key_env: str,
    models: tuple[str, ...],
    idle: float,
    max_sessions: int,
    max_body: int,
    out: Out,
) -> None:
    """Serve a policy over HTTP, and record each session as an episode.

    It speaks OpenAI's chat completions and responses, and Anthropic's messages. A program needs nothing but another
    base URL: http://127.0.0.1:8765/s/SESSION/v1, where SESSION is any name. The address itself is a page to talk with
    the policy, and to read and rate sessions.
    """
    from .live import Limits, opened, serve_until

    if not (idle > 0 and max_sessions > 0 and max_body > 0):
        raise UsageError("--idle, --max-sessions and --max-body must be more than 0", fix="leave them out")
    key = os.environ.get(key_env, "").strip()
    if host not in _LOOPBACK and not key:
        raise SettingsError(
            f"{host} can be reached from other machines, so a key is required",
            fix=f"set the environment variable {key_env}, or leave --host out",
        )
    given = {
        "policy": policy,
        "memories": memories,
        "tools": tools,
        "rewards": rewards,
        "assignments": assignments,
        "spec": spec,
    }
    if resume and any(given.values()):
        raise UsageError("--resume continues a run as it is", fix="leave the other options of the run out")
    live = opened(runs or _runs(), resume, **given)  # type: ignore[arg-type]
    names = () if "any" in models else models or _names(live)
    limits = Limits(names, (key,) if key else (), idle, max_sessions, max_body)

    def ready(url: str) -> None:
        if out.json:
            out.data({"url": url, "folder": str(live.folder.path), "models": list(names)})
        else:
            out.line(f"{url}/s/SESSION/v1   {live.assembly.spec.policy.name}   {live.folder.path}/")
            out.note(f"{url}/ to talk, read and rate; models: {', '.join(names) or 'any'}; stop with Ctrl-C")
        sys.stdout.flush()

    async def main() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve_until(stop, live, host, port, limits, ready)

    try:
        asyncio.run(main())
    except RunInUseError as error:
        raise RunInUseError(
            error.message, fix="stop it, or leave --resume out and serve with the same options: that begins a new run"
        ) from None


@click.command()
@click.argument("session")
@click.argument("value", required=False)
@click.option("--correction", default="", help="The answer that should have been given.")
@click.option("--words", default="", help="What is good or bad about it.")
@click.option("--turn", type=int, help="Number of the answer, from 0. Default: the whole session.")
@click.option("--end", "ends", is_flag=True, help="End the session, so that it is scored and learned from.")
@click.option("--url", default=f"http://127.0.0.1:{_PORT}", show_default=True, help="Address of the gateway.")
@_key_option
@json_option
def feedback(
    session: str,
    value: str | None,
    correction: str,
    words: str,
    turn: int | None,
    ends: bool,
    url: str,
    key_env: str,
    out: Out,
) -> None:
    """Say what you think of the answers of SESSION: good, bad, or a number from -1 to 1."""
    if value is None and not correction and not ends:
        raise UsageError("there is no feedback", fix=f"agentfw feedback {session} good")
    key = os.environ.get(key_env, "").strip()
    address = f"{url.rstrip('/')}/s/{session}"
    results: list[dict[str, Any]] = []
    if value is not None or correction:
        body = {"value": _number(value), "correction": correction, "words": words, "turn": turn}
        results.append(_posted(f"{address}/feedback", body, key))
    if ends:
        results.append(_posted(f"{address}/end", {}, key))
    if out.json:
        out.data(results[-1])
        return
    for result in results:
        out.line("   ".join(f"{name} {shown}" for name, shown in result.items() if shown is not None))


def _number(value: str | None) -> str | float | None:
    try:
        return value if value is None else float(value)
    except ValueError:
        return value


def _posted(url: str, body: dict[str, Any], key: str) -> dict[str, Any]:
    import httpx

    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.post(url, json=body, headers=headers, timeout=60)
        result: dict[str, Any] = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise EndpointError(f"can't reach the gateway at {url}: {error}", fix="start it: agentfw serve") from None
    if answer.is_error:
        raise AgentfwError(f"the gateway refused: {result['error']['message']}", fix="see: agentfw feedback --help")
    return result


def _runs() -> Path:
    from agentfw.host import find_project

    project = find_project()
    return project.runs if project is not None else Path("runs")


def _names(live: LiveRun) -> tuple[str, ...]:
    """The names that the policy is known by: its own, and that of its model."""
    policy = live.assembly.spec.policy
    model = str(getattr(policy.checked, "model", "") or "")
    return tuple(dict.fromkeys(name for name in ("agentfw", policy.name, Path(model).name) if name))
