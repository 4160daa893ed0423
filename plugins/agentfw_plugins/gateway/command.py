"""`agentfw serve` and `agentfw feedback`.

For --help, this module and those of its subcommands are imported, so each command imports what it needs.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import signal
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click

from agentfw.errors import AgentfwError, EndpointError, RunInUseError, SettingsError, UsageError, known_names
from agentfw.printing.out import Out, counted, docs_page, shown_path

from ..command_options import json_option, runs_option, show, spec_options
from .forgetting import forget
from .learning.command import CANARY, forget_feedback, learning_of, rollback, versions
from .operator_commands import keys, keys_at, sessions
from .replay import replay
from .usage import usage
from .variants import variants

_KEY = "AGENTFW_KEY"  # the environment variable with the operator's key
_DAY = 86_400.0
_PORT = 8765
_ALONE = "you"  # who asks on a machine of one's own, where a request names nobody
_LISTED = 5  # maximum number of sessions that are named where there isn't the one that was meant
_COUNT, _SECONDS = click.IntRange(1), click.FloatRange(0, min_open=True)


@click.group(invoke_without_command=True)
@click.option(
    "--policy",
    metavar="NAME",
    help="Policy that answers, or a run, such as `last`: the newest version of a training. Default: the provider that "
    "OPENAI_BASE_URL and OPENAI_API_KEY name, or ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY.",
)
@click.option(
    "--model",
    metavar="MODEL",
    help="Model in this process, or of --policy: an id of Hugging Face (ORG/NAME), a folder, a GGUF file, or smollm2.",
)
@click.option(
    "--memory",
    "memories",
    multiple=True,
    metavar="NAME",
    help="Memory to use, or `none`. Can be repeated. Default: skillgraph, if it is installed.",
)
@click.option(
    "--remember",
    type=click.Choice(["said", "model"]),
    default="said",
    show_default=True,
    help="What the memory keeps of what users say: lasting sentences as they were said, or what the provider's model "
    "decides, asked once a message behind the answer.",
)
@click.option(
    "--tool", "tools", multiple=True, metavar="NAME[=ALIAS]", help="Tool to offer on the page. Can be repeated."
)
@spec_options
@click.option("--mask", is_flag=True, help="Mask keys, passwords and card numbers in what is recorded (--hook redact).")
@runs_option
@click.option("--resume", metavar="RUN", help="Continue the sessions of this run. Default: of the newest.")
@click.option("--new", "fresh", is_flag=True, help="Begin a new record of sessions. The memory stays.")
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
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="Port to listen on; 0 for any free one.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Name of this gateway under which a browser may look at sessions. Can be repeated.",
)
@click.option(
    "--upstream-key",
    type=click.Choice(["own", "client"]),
    help="Key that the provider gets: the gateway's own, or the client's, who sends a key of the gateway in "
    "x-agentfw-key. Default: own, and the client's where there is none, on this machine without keys.",
)
@click.option(
    "--served-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Model name to answer to, or `any`. Can be repeated. Default: those of the policy and its model.",
)
@click.option(
    "--also",
    "models",
    multiple=True,
    metavar="NAME=POLICY",
    help="Serve another model under this name, with the settings model.NAME.KEY. Can be repeated.",
)
@click.option(
    "--fallback",
    "fallbacks",
    multiple=True,
    metavar="NAME=OTHER",
    help="Model that answers if another is unreachable or overloaded. Can be repeated.",
)
@click.option(
    "--idle", type=_SECONDS, default=3600.0, show_default=True, help="Seconds after which an unused session ends."
)
@click.option(
    "--max-concurrency",
    type=_COUNT,
    help="Maximum number of answers at once. Default: 1000 in front of a provider, else that of the policy, or 64.",
)
@click.option(
    "--queue-timeout",
    type=_SECONDS,
    default=60.0,
    show_default=True,
    help="Maximum time that a request waits, in seconds.",
)
@click.option(
    "--drain",
    type=_SECONDS,
    default=30.0,
    show_default=True,
    help="Seconds that answers have to end when it is stopped.",
)
@click.option("--log", type=click.Choice(["json"]), help="Log requests to stderr, one line of JSON each.")
@click.option("--learn", is_flag=True, help="Train new versions from the feedback that comes in.")
@click.option(
    "--learn-every",
    type=_COUNT,
    default=40,
    show_default=True,
    help="Number of newly rated answers that a new version takes.",
)
@click.option(
    "--learn-own",
    "owns",
    is_flag=True,
    help="With --learn: also train a version for each user, and serve it to those for whom it is better.",
)
@click.option(
    "--metric",
    default="",
    metavar="NAME",
    help="Metric of the feedback that versions learn from, or a bound of it, such as stars>=4. Default: feedback "
    "without a metric.",
)
@click.option(
    "--learn-spec",
    type=click.Path(path_type=Path, exists=True),
    help="Spec file (TOML) of the training. Default: train-from-feedback.",
)
@click.option(
    "--canary",
    type=click.FloatRange(0, 0.5),
    help="Share of the sessions that get a new version on trial. 0: all get it at once. Default: 0.5.",
)
@json_option
@click.pass_context
def serve(
    context: click.Context,
    /,
    remember: str,
    mask: bool,
    runs: Path,
    resume: str | None,
    fresh: bool,
    shared: str,
    keep_ended: float | None,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    upstream_key: str | None,
    names: tuple[str, ...],
    idle: float,
    max_concurrency: int | None,
    queue_timeout: float,
    drain: float,
    log: str | None,
    learn: bool,
    learn_every: int,
    learn_spec: Path | None,
    canary: float | None,
    metric: str,
    owns: bool,
    out: Out,
    **given: Any,
) -> None:
    """Serve a policy over HTTP, and record each session as an episode.

    Without options, it is put in front of the provider that OPENAI_BASE_URL and OPENAI_API_KEY name. A program needs
    nothing but another base URL, which is printed at the start. It speaks OpenAI's chat completions, completions,
    responses and embeddings, Anthropic's messages and Google's generateContent. The address itself is a page to talk
    with the policy, and to read and rate sessions.

    The memory and the record of sessions are below the directory of runs, and the next `agentfw serve` goes on with
    them. With --sessions, several gateways answer in the same sessions.
    """
    if context.invoked_subcommand is not None:
        return
    from .handling import LOOPBACK
    from .health import log_as_json
    from .keys import is_weak
    from .learning.version_file import Wished
    from .live import Limits, Stop, limits_of, opened, serve_until, served_models, until_free
    from .start import Start, with_defaults

    if log is not None:
        log_as_json()
    key = os.environ.get(_KEY, "").strip()
    keys_of_users = keys_at(runs, shared)
    has_keys, is_local = bool(key) or keys_of_users.exists, host in LOOPBACK
    is_alone = is_local and not has_keys
    if not is_local and not has_keys:
        fix = f"set the environment variable {_KEY}, run: agentfw serve keys add NAME, or leave --host out"
        raise SettingsError(f"{host} can be reached from other machines, so a key is required", fix=fix)
    if not is_local and key and is_weak(key):
        raise SettingsError(
            f"the key in {_KEY} is easy to guess, and {host} can be reached from other machines",
            fix=f"export {_KEY}=$(python3 -c 'import secrets; print(secrets.token_urlsafe(32))')",
        )
    if mask and "redact" not in given["hooks"]:
        given["hooks"] = (*given["hooks"], "redact")
    model = given["model"]
    if model and "=" in model and not Path(model).exists():
        raise UsageError(f"--model {model}: a model has no =", fix=f"to serve another one beside it: --also {model}")
    if resume and (fresh or remember != "said" or any(given.values())):
        raise UsageError("--resume continues a run as it is", fix="leave the other options of the run out")
    if keep_ended is not None and not shared:
        raise UsageError("--keep-ended is about sessions that gateways share", fix="add --sessions, or leave it out")
    if not learn and (learn_spec or metric or owns or canary is not None):
        words = "--learn-spec, --learn-own, --metric and --canary are about versions that are trained"
        raise UsageError(words, fix="add --learn")
    if not resume:
        given = with_defaults(given, runs, host, port, shared=shared, by_model=remember == "model")
    limits = Limits(
        keys=(key,) if key else (),
        key_file=None if shared else Path(keys_of_users.place),
        idle=idle,
        queue_timeout=queue_timeout,
        drain=drain,
        shared=shared,
        keep_ended=None if keep_ended is None else keep_ended * _DAY,
        hosts=(host, *hosts),
        once=secrets.token_urlsafe(32) if has_keys else "",
        upstream_key="callers" if upstream_key == "client" else "either" if is_alone and not upstream_key else "own",
        default_user=_ALONE if is_alone and not shared else "",
    )
    live = opened(runs, resume, again="" if fresh else "free" if shared else "newest", **given)
    budget = live.assembly.spec.budget
    if shared and (budget.tokens is not None or budget.money is not None):
        words = "budget.tokens and budget.money are counted by one process, and --sessions is for several"
        raise SettingsError(words, fix="use hook.budget.run_tokens and hook.budget.run_money, which all count together")
    wished = Wished(learn_every, CANARY if canary is None else canary, metric, owns) if learn else None
    learning = learning_of(live, wished, learn_spec, shared=shared, tell=out.note)
    limits = limits_of(live, limits, names, max_concurrency)
    start = Start(live, limits, _KEY if key else "", has_keys)
    starting, fronts, remembered = ExitStack(), list[str](), ""

    def ready(url: str) -> None:
        starting.close()
        programs = list(start.programs(url))
        if out.json:
            about = {"url": url, "folder": str(live.folder.path), "models": [*limits.models, *live.assembly.models]}
            out.data({**about, "providers": fronts, "export": programs})
        else:
            out.line(f"{url}   {'; '.join(fronts) or start.policy}")
            for line in programs:
                out.line(line)
            for note in start.notes(remembered):
                out.note(note)
            if live.assembly.policy.forwards and not served_models(live, ()).own.forwards:
                why = docs_page("docs/reference/gateway.md")
                out.note(f"a memory acts through tools, so requests are rewritten: see {why}")
            login = f"login?once={limits.once}" if limits.once else "view/"
            out.note(f"{url}/ to talk and rate, {url}/{login} to look at everything; stop with Ctrl-C")
        out.stream.flush()

    async def main() -> None:
        stop, loop = Stop(), asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, partial(stop.set, keeps_sessions=True))
        nonlocal remembered
        fronts.extend(await start.providers())
        remembered = "" if out.json else await asyncio.to_thread(start.remembered)
        try:
            await until_free(live, stop, drain, out.note)
            await serve_until(stop, live, host, port, limits, ready, learning)
        except AgentfwError:
            await live.assembly.close()  # the provider was asked, and nothing was served that closes it
            raise

    try:
        with starting:
            starting.enter_context(out.progress("starting"))
            asyncio.run(main())
    except RunInUseError as error:
        fix = "stop it first, or begin another record: agentfw serve --new, with the same options"
        raise RunInUseError(f"{error.message}, and one process at a time serves a run", fix=fix) from None
    if out.json:
        return
    if shared:
        out.note("sessions are kept where --sessions says, for the other gateways and the next start")
        return
    folder, count = shown_path(live.folder.path), len(live.sessions) + len(live.ended)
    kept = f"{counted(count, 'session')} kept in {folder}/ for the next agentfw serve"
    out.note(f"{kept}; look at all: agentfw view {shown_path(live.folder.path.parent)}")


for subcommand in (forget, keys, replay, sessions, usage, variants, versions, rollback, forget_feedback):
    serve.add_command(subcommand)


@click.command()
@click.argument("session")
@click.argument("value", required=False)
@click.option("--correction", default="", help="The answer that should have been given.")
@click.option("--words", default="", help="What is good or bad about it.")
@click.option("--turn", type=int, help="Number of the answer, from 0, or -1 for the last. Default: the whole session.")
@click.option("--metric", default="", metavar="NAME", help="Metric that VALUE is of: true, false, or any number.")
@click.option("--end", "ends", is_flag=True, help="End the session, so that it is scored and learned from.")
@click.option("--url", default=f"http://127.0.0.1:{_PORT}", show_default=True, help="Address of the gateway.")
@json_option
def feedback(
    session: str,
    value: str | None,
    correction: str,
    words: str,
    turn: int | None,
    metric: str,
    ends: bool,
    url: str,
    out: Out,
) -> None:
    """Say what you think of the answers of SESSION: good, bad, or a number from -1 to 1.

    With --metric, the feedback has a name, and VALUE is true, false or any number.
    """
    if value is None and not correction and not ends:
        raise UsageError("there is no feedback", fix=f"agentfw feedback {session} good")
    key = os.environ.get(_KEY, "").strip()
    address = f"{'' if '://' in url else 'http://'}{url.rstrip('/')}/s/{session}"
    results: list[dict[str, Any]] = []
    if value is not None or correction:
        body = {"value": _number(value), "correction": correction, "words": words, "turn": turn, "metric": metric}
        results.append(_posted(f"{address}/feedback", body, key))
    if ends:
        results.append(_posted(f"{address}/end", {}, key))
    told = [[f"{name} {shown}" for name, shown in result.items() if shown is not None] for result in results]
    show(out, results[-1], *map("   ".join, told))


def _number(value: str | None) -> str | float | None:
    if value in ("true", "false"):
        return value == "true"
    try:
        number = value if value is None else float(value)
    except ValueError:
        return value
    return number if number is None or math.isfinite(number) else value  # JSON has no nan


def _posted(url: str, body: dict[str, Any], key: str) -> dict[str, Any]:
    import httpx

    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.post(url, json=body, headers=headers, timeout=60)
        result: dict[str, Any] = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise EndpointError(f"can't reach the gateway at {url}: {error}", fix="start it: agentfw serve") from None
    if answer.is_error:
        fix = "see: agentfw feedback --help"
        if result["error"].get("code") == "no_such_session":
            listed = httpx.get(f"{url.partition('/s/')[0]}/sessions", headers=headers, timeout=60)
            names = [one["session"] for one in listed.json().get("sessions", ()) if not one["finish"]]
            known = known_names(" sessions in progress", url.split("/")[-2], names[:_LISTED])
            fix = known if names else "none is in progress; look at those that have ended: agentfw view"
        elif answer.status_code == 410:
            fix = "rate it on its page: agentfw view"
        elif answer.status_code == 401:
            fix = f"put a key of the gateway into the environment variable {_KEY}"
        raise AgentfwError(f"the gateway refused: {result['error']['message']}", fix=fix)
    return result
