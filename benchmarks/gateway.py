"""The gateway: exact tokens, `kill -9`, hostile input, and clients that hang up.

    python benchmarks/gateway.py tokens --sessions 100
    python benchmarks/gateway.py kill --kills 50
    python benchmarks/gateway.py hostile --requests 10000
    python benchmarks/gateway.py hangups --clients 24 --seconds 40

`tokens`: random sessions with tools, branches, retries and edits, with a small model; do the recorded tokens equal
those that the policy drew, and does a learner agree about their logprobs within 1e-5? `kill`: a gateway under load is
killed at random moments; is all that it had answered on disk? `hostile`: mutated requests. `hangups`: clients that hang
up at random, in front of an upstream whose answers never end; is each of them stopped there, and does nothing remain
here?
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from agentfw_benchmarks import TESTS, Options, make_model, tell

sys.path.insert(0, str(TESTS / "plugins" / "gateway"))


def tokens(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from random_sessions import Noting, lead  # type: ignore[import-not-found]

    from agentfw.runs import read_sessions
    from agentfw_plugins.gateway.app import Gateway
    from agentfw_plugins.gateway.live import opened
    from agentfw_plugins.gateway.sessions.session_finder import LiveSessionFinder
    from agentfw_plugins.learners.model_learner import LoraLearner
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.serving import serving

    model = options.model or make_model(folder / "model")
    live = opened(folder, policy="transformers", assignments=[f"policy.model={model}", "policy.device=cpu"])
    noting = Noting(live.assembly.policy.inside)
    live.assembly.policy.inside = noting

    async def run() -> None:
        async with (
            live,
            httpx.AsyncClient(timeout=600) as client,
            serving(Gateway(LiveSessionFinder(live)).app, "127.0.0.1", 0) as url,
        ):
            await asyncio.gather(*(lead(client, f"{url}/s/s{i}/v1", i) for i in range(options.sessions)))

    asyncio.run(run())
    episodes = read_sessions(live.folder.path)
    turns = [turn for episode in episodes for turn in episode.turns]
    recorded = sorted((turn.prompt_ids, turn.token_ids, turn.logprobs) for turn in turns)
    drawn = sorted((one.prompt_ids, one.token_ids, one.logprobs) for one in noting.drawn)
    learner = LoraLearner(LoraSettings(model=str(model), device="cpu"))
    learner.open(folder)
    apart: list[float] = []
    for turn in turns:
        found = learner.logprobs(turn.prompt_ids, turn.token_ids)
        apart += [abs(a - b) for a, b in zip(found, turn.logprobs, strict=True)]
    learner.close()
    return {
        "sessions": len(episodes),
        "turns": len(turns),
        "tokens": sum(len(turn.token_ids) for turn in turns),
        "branches": sum(len({turn.shown for turn in episode.turns}) for episode in episodes),
        "recorded are those that were drawn": recorded == drawn,
        "largest difference of a logprob": max(apart),
        "tokens with a difference above 1e-5": sum(each > 1e-5 for each in apart),
    }


def kill(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from killing import kill_under_load, lost  # type: ignore[import-not-found]

    draw, answered, gone, sessions = random.Random(options.seed), 0, 0, 0
    from agentfw.runs import read_sessions

    for number in range(options.kills):
        run, known = kill_under_load(folder / str(number), draw.uniform(0.02, 1.0))
        answered += len(known)
        gone += len(lost(run, known))
        sessions += len(read_sessions(run))
    return {"kills": options.kills, "answered": answered, "lost": gone, "sessions read": sessions}


def hostile(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from killing import start
    from mutations import mutated  # type: ignore[import-not-found]

    process, url, _run = start(folder, "--policy", "scripted", "--set", 'policy.replies=["yes"]', "--model", "any")
    found: dict[str, int] = {}
    try:
        with httpx.Client(timeout=20) as client:
            for number in range(options.requests):
                path, raw, headers = mutated(number)
                try:
                    status = str(client.post(f"{url}{path}", content=raw, headers=headers).status_code)
                except (httpx.InvalidURL, httpx.LocalProtocolError):
                    status = "not sent by the client"
                found[status] = found.get(status, 0) + 1
        alive = process.poll() is None
    finally:
        process.terminate()
        _out, err = process.communicate(timeout=60)
    return {
        "requests": options.requests,
        "answers": dict(sorted(found.items())),
        "of 500 and above": sum(count for status, count in found.items() if status >= "5" and status.isdigit()),
        "alive": alive,
        "exit code": process.returncode,
        "lines on stderr": len(err.splitlines()),
        "the first of them": err.splitlines()[:3],
    }


def hangups(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from endless_upstream import endless, until  # type: ignore[import-not-found]
    from killing import start

    from agentfw.runs import read_sessions

    async def hang_up(url: str, number: int, end: float) -> int:
        """Ask, and leave after a while. Returns how often."""
        draw, (host, port), asked = random.Random(number), url.removeprefix("http://").split(":"), 0
        while time.monotonic() < end:
            said = {"role": "user", "content": draw.choice(["for ever", "for ever", "now"])}
            content = json.dumps({"model": "served", "stream": draw.random() < 0.6, "messages": [said]}).encode()
            whole = request_of(f"c{number}", host, content)
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(whole[: draw.randint(1, len(whole))] if draw.random() < 0.1 else whole)
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(draw.uniform(0, options.patience)):
                    await reader.read(draw.randint(1, 4000))
            draw.choice([writer.close, writer.transport.abort])()
            asked += 1
        return asked

    async def all_of_them(url: str) -> int:
        end = time.monotonic() + options.seconds
        return sum(await asyncio.gather(*(hang_up(url, number, end) for number in range(options.clients))))

    def figures(url: str) -> dict[str, float]:
        rows = [line.rsplit(" ", 1) for line in httpx.get(f"{url}/metrics").text.splitlines() if line[0] != "#"]
        return {name: float(value) for name, value in rows}

    with endless() as upstream:
        settings = {"base_url": upstream.url, "model": "served", "token_ids": "off", "concurrency": 16}
        given = [f"--set=policy.{name}={value}" for name, value in settings.items()]
        process, url, run = start(folder, "--policy", "openai", "--set=max_turns=1000000", *given)
        try:
            asked = asyncio.run(all_of_them(url))
            until(lambda: upstream.begun == upstream.gone)
            names = ("agentfw_answers_in_progress", "agentfw_requests_waiting")
            until(lambda: not any(figures(url)[name] for name in names))
            now = {"model": "served", "messages": [{"role": "user", "content": "now"}]}
            following = httpx.post(f"{url}/s/next/v1/chat/completions", json=now, timeout=60).status_code
            counted = figures(url)
        finally:
            process.terminate()
            process.communicate(timeout=60)
    events = [event.name for episode in read_sessions(run) for event in episode.events]
    return {
        "requests": asked,
        "asked of the upstream": upstream.begun,
        "of them stopped there": upstream.gone,
        "answers that were complete": int(counted['agentfw_answers_total{end="complete"}']),
        "noted as hung up": events.count("hung_up"),
        "of them with what was streamed": events.count("cut_off"),
        "status of the next request": following,
        "files of streams left": len(list((run / "streams").glob("*"))),
        "exit code": process.returncode,
    }


def request_of(name: str, host: str, content: bytes) -> bytes:
    """The bytes of a request. A full client would take more of the processor than the gateway does."""
    path = f"/s/{name}/v1/chat/completions"
    return f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


def show(found: dict[str, Any]) -> None:
    for name, value in found.items():
        print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        sessions=100,
        model=("", "folder of a model; default: a random one is made"),
        kills=50,
        requests=10_000,
        clients=(24, "clients that hang up"),
        seconds=(40.0, "how long they do"),
        patience=(3.0, "seconds that each of them waits at most"),
        seed=7,
    )
    measures = {"tokens": tokens, "kill": kill, "hostile": hostile, "hangups": hangups}
    parser.add_argument("what", choices=measures)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = measures[options.what](options, Path(folder))
    return tell(found, options.json, show)


if __name__ == "__main__":
    main()
