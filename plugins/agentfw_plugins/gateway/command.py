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
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.errors import AgentfwError, EndpointError, RunInUseError, SettingsError, UsageError
from agentfw.printing.out import Out

from ..command_options import json_option
from .keys_command import key_file_option, keys, keys_at
from .learning.command import forget_feedback, learning_of, learning_options, rollback, versions
from .sessions.sessions_command import sessions

if TYPE_CHECKING:
    from agentfw.runs import LiveRun

__all__ = ["feedback", "serve"]

_KEY = "AGENTFW_KEY"
_DAY = 86_400.0
_PORT = 8765
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

_key_option = click.option(
    "--key-env", default=_KEY, show_default=True, metavar="NAME", help="Environment variable with the key."
)


@click.group(invoke_without_command=True)
@click.option(
    "--policy",
    metavar="NAME",
    help="Policy that answers, or a run, such as `last`: the newest version of a training. Default: transformers.",
)
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
@click.option(
    "--continue", "again", is_flag=True, help="Continue the newest run with the same options, if there is one."
)
@click.option(
    "--sessions",
    "shared",
    metavar="WHERE",
    default="",
    help="Share sessions with other gateways: a postgresql:// address, or a file for gateways on this machine.",
)
@click.option(
    "--keep-ended",
    type=click.FloatRange(0),
    metavar="DAYS",
    help="With --sessions: delete sessions so many days after their end. Feedback that no training has copied stays.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Where the gateway runs: in this process, or as replicas on Ray that share --sessions.",
)
@click.option(
    "--replicas",
    metavar="N|MIN-MAX",
    help="With --engine ray: number of replicas. A range follows the number of requests in progress. Default: 2.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=_PORT, show_default=True, help="Port to listen on; 0 for any free one.")
@_key_option
@key_file_option
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME[=POLICY]",
    help="Model name to answer to, or `any`. With a policy, another model, whose settings are model.NAME.KEY. "
    "Can be repeated.",
)
@click.option(
    "--fallback",
    "fallbacks",
    multiple=True,
    metavar="NAME=OTHER",
    help="Model that answers if another is unreachable or overloaded. Can be repeated.",
)
@click.option("--idle", default=3600.0, show_default=True, help="Seconds after which an unused session ends.")
@click.option("--max-sessions", default=10_000, show_default=True, help="Maximum number of sessions in progress.")
@click.option(
    "--max-concurrency", type=int, help="Maximum number of answers at once. Default: that of the policy, or 64."
)
@click.option(
    "--max-queue", default=1000, show_default=True, help="Maximum number of requests that wait for the policy."
)
@click.option("--queue-timeout", default=60.0, show_default=True, help="Maximum time that a request waits, in seconds.")
@click.option("--drain", default=30.0, show_default=True, help="Seconds that answers have to end when it is stopped.")
@click.option("--log", type=click.Choice(["json"]), help="Log requests to stderr, one line of JSON each.")
@click.option("--max-body", default=8_000_000, show_default=True, help="Maximum size of a request, in bytes.")
@learning_options
@json_option
@click.pass_context
def serve(
    context: click.Context,
    policy: str | None,
    memories: tuple[str, ...],
    tools: tuple[str, ...],
    rewards: tuple[str, ...],
    assignments: tuple[str, ...],
    spec: Path | None,
    runs: Path | None,
    resume: str | None,
    again: bool,
    shared: str,
    keep_ended: float | None,
    engine: str,
    replicas: str | None,
    host: str,
    port: int,
    key_env: str,
    key_file: Path | None,
    models: tuple[str, ...],
    fallbacks: tuple[str, ...],
    idle: float,
    max_sessions: int,
    max_concurrency: int | None,
    max_queue: int,
    queue_timeout: float,
    drain: float,
    log: str | None,
    max_body: int,
    learn: bool,
    learn_every: int,
    learn_spec: Path | None,
    canary: float | None,
    out: Out,
) -> None:
    """Serve a policy over HTTP, and record each session as an episode.

    It speaks OpenAI's chat completions, completions, responses and embeddings, Anthropic's messages and Google's
    generateContent. A program needs nothing but another base URL: http://127.0.0.1:8765/s/SESSION/v1, where SESSION is
    any name. The address itself is a page to talk with the policy, and to read and rate sessions.

    Ctrl-C ends all sessions. SIGTERM, which service managers send, keeps them for a process that continues the run.
    With --sessions, several gateways answer in the same sessions, and the end of one ends none of them.
    """
    if context.invoked_subcommand is not None:
        return
    from .health import log_as_json
    from .live import Limits, Stop, limits_of, opened, serve_until, until_free
    from .models import served_models
    from .stderr_thread import stderr_in_a_thread

    given_limits = {
        "--idle": idle,
        "--max-sessions": max_sessions,
        "--max-concurrency": 1 if max_concurrency is None else max_concurrency,
        "--max-queue": max_queue,
        "--queue-timeout": queue_timeout,
        "--drain": drain,
        "--max-body": max_body,
    }
    for name, limit in given_limits.items():
        if not limit > 0:
            raise UsageError(f"{name} is {limit}, and must be more than 0", fix=f"leave {name} out")
    context.with_resource(stderr_in_a_thread())
    if log is not None:
        log_as_json()
    key = os.environ.get(key_env, "").strip()
    keys_of_users = keys_at(key_file, runs)
    if host not in _LOOPBACK and not (key or keys_of_users.exists):
        raise SettingsError(
            f"{host} can be reached from other machines, so a key is required",
            fix=f"set the environment variable {key_env}, run: agentfw serve keys add NAME, or leave --host out",
        )
    given: dict[str, Any] = {
        "policy": policy,
        "memories": memories,
        "tools": tools,
        "rewards": rewards,
        "assignments": assignments,
        "spec": spec,
        "models": [model for model in models if "=" in model],
        "fallbacks": fallbacks,
    }
    if resume and (again or any(given.values())):
        raise UsageError("--resume continues a run as it is", fix="leave the other options of the run out")
    if keep_ended is not None and not shared:
        raise UsageError("--keep-ended is about sessions that gateways share", fix="add --sessions, or leave it out")
    own = tuple(model for model in models if "=" not in model)
    limits = Limits(
        keys=(key,) if key else (),
        key_file=keys_of_users.path,
        idle=idle,
        sessions=max_sessions,
        body=max_body,
        queue=max_queue,
        queue_timeout=queue_timeout,
        drain=drain,
        shared=shared,
        keep_ended=None if keep_ended is None else keep_ended * _DAY,
    )
    if engine == "ray":
        from .ray_replicas import serve_replicas

        if resume or again or learn:
            raise UsageError(
                "each replica on Ray begins a run of its own, and trains no versions",
                fix="leave --resume, --continue and --learn out; a gateway with --learn can share the --sessions",
            )
        serve_replicas(
            runs or _runs(),
            given,
            limits,
            host,
            port,
            replicas or "2",
            names=own,
            at_once=max_concurrency,
            json_log=log is not None,
            out=out,
        )
        return
    if replicas is not None:
        raise UsageError("--replicas is about gateways on Ray", fix="add --engine ray, or leave it out")
    live = opened(runs or _runs(), resume, again=again, **given)
    learning = learning_of(live, learn, every=learn_every, spec=learn_spec, canary=canary, shared=shared, tell=out.note)
    limits = limits_of(live, limits, own, max_concurrency)
    names, others = limits.models, tuple(live.assembly.models)

    starting = ExitStack()

    def ready(url: str) -> None:
        starting.close()
        if out.json:
            out.data({"url": url, "folder": str(live.folder.path), "models": [*names, *others]})
        else:
            out.line(f"{url}/s/SESSION/v1   {live.assembly.spec.policy.name}   {live.folder.path}/")
            if not (key or keys_of_users.exists):
                out.note("no key: everybody who can log in on this machine can read and lead all sessions")
            if live.assembly.memories:
                out.note("memories take part in requests that name a user: `user`, x-agentfw-user, or a user's key")
            if live.assembly.policy.forwards and not served_models(live, ()).own.forwards:
                out.note("a memory acts through tools, so requests are rewritten: see docs/reference/gateway.md")
            out.note(
                f"{url}/ to talk, read and rate; models: {', '.join((*(names or ('any',)), *others))}; stop with Ctrl-C"
            )
        out.stream.flush()

    async def main() -> None:
        stop, loop = Stop(), asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, stop.set)
        loop.add_signal_handler(signal.SIGTERM, partial(stop.set, keeps_sessions=True))
        if again:
            await until_free(live, drain)
        await serve_until(stop, live, host, port, limits, ready, learning)

    try:
        with starting:
            starting.enter_context(out.progress("starting"))
            asyncio.run(main())
    except RunInUseError as error:
        raise RunInUseError(
            f"{error.message}, and one process at a time serves a run",
            fix="stop it first, or leave --resume out and serve with the same options: that begins a new run",
        ) from None
    if not out.json:
        out.note(_told_at_the_end(live, shared))


for subcommand in (keys, sessions, versions, rollback, forget_feedback):
    serve.add_command(subcommand)


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


def _told_at_the_end(live: LiveRun, shared: str) -> str:
    """What was kept, and how to go on."""
    folder, open_ones, ended = live.folder.path, len(live.sessions), len(live.ended)
    if shared:
        return f"sessions are kept in the shared store; what this gateway answered is in {folder}/"
    if open_ones:
        return f"{_sessions(open_ones)} kept in {folder}/; go on with: agentfw serve --resume {folder.name}"
    return f"{_sessions(ended)} recorded in {folder}/; read with: agentfw view {folder}"


def _sessions(count: int) -> str:
    return "1 session is" if count == 1 else f"{count} sessions are"


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
    from agentfw.host import runs_directory

    return runs_directory(None)
