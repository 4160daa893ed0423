"""The gateway: exact tokens, `kill -9`, hostile input, and many streams. gateway_chaos.py has what fails.

    python benchmarks/gateway.py tokens --sessions 100
    python benchmarks/gateway.py kill --kills 50
    python benchmarks/gateway.py hostile --requests 10000
    python benchmarks/gateway.py streams --streams 100 --seconds 16
    python benchmarks/gateway.py streams --streams 1000 --seconds 4

`tokens`: random sessions with tools, branches, retries and edits, with a small model; do the recorded tokens equal
those that the policy drew, and does a learner agree about their logprobs within 1e-5? `kill`: a gateway under load is
killed at random moments; is all that it had answered on disk? `hostile`: mutated requests. `streams`: so many at once
that take so long, of the server and through the gateway; how long does the slowest wait for its first byte? Then
clients hang up at random bytes, beside as many processes that take the processors away as there are; do all places come
back, and are the streams afterwards as fast?
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
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

    answers = ("--policy", "scripted", "--set", 'policy.replies=["yes"]', "--served-name", "any")
    process, url, _run = start(folder, *answers)
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


async def slow_server() -> None:
    """A server whose answers take as many seconds as they are asked to."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int((re.findall(rb"content-length: (\d+)", head.lower()) or [b"0"])[0])
                if head.startswith(b"GET"):
                    await reader.readexactly(length)
                    writer.write(b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n")
                    writer.write(b'{"data":[]}')
                    continue
                seconds = int(json.loads(await reader.readexactly(length))["messages"][-1]["content"])
                writer.write(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
                for second in range(seconds + 1):
                    choice = {"index": 0, "delta": {"content": "on "}, "finish_reason": None}
                    writer.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
                    await writer.drain()
                    await asyncio.sleep(1 if second < seconds else 0)
                last = {"index": 0, "delta": {}, "finish_reason": "stop"}
                writer.write(b"data: " + json.dumps({"choices": [last]}).encode() + b"\n\ndata: [DONE]\n\n")
                await writer.drain()
                return
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=2000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def streamed(url: str, number: int, seconds: int, cut: int | None = None) -> tuple[float, float]:
    """Seconds until the first byte of a stream, and until its end. With `cut`, hang up after so many bytes."""
    host, port = url.removeprefix("http://").partition("/")[0].split(":")
    body = json.dumps(
        {"model": "m", "stream": True, "messages": [{"role": "user", "content": f"{seconds}"}], "user": f"u{number}"}
    ).encode()
    path = "/" + url.removeprefix("http://").partition("/")[2]
    head = f"POST {path}/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    given = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(given if cut is None else given[:cut])
        await writer.drain()
        if cut is not None:
            await reader.read(max(0, cut - len(given)))
            return 0.0, 0.0
        answered = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in answered.partition(b"\r\n")[0], answered
        first, received = 0.0, b""
        while b"[DONE]" not in received and (part := await reader.read(65536)):
            first = first or time.perf_counter() - began
            received = received[-10:] + part
        assert b"[DONE]" in received
        return first, time.perf_counter() - began
    finally:
        writer.close()


@contextmanager
def processors_taken() -> Iterator[None]:
    """Let other processes compete for all processors."""
    busy = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    for process in busy:
        process.start()
    try:
        yield
    finally:
        for process in busy:
            process.kill()


def _spin() -> None:
    while True:
        pass


def streams(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from killing import start

    async def many(url: str) -> list[float]:
        each = (streamed(url, number, options.seconds) for number in range(options.streams))
        times = await asyncio.gather(*each)
        return [max(first for first, _ in times), max(end for _, end in times)]

    async def hung_up(url: str) -> None:
        draw, places = random.Random(options.seed), asyncio.Semaphore(50)

        async def one(number: int) -> None:
            async with places:
                await streamed(url, number, 30, draw.randrange(700))

        await asyncio.gather(*(one(number) for number in range(options.hangups)), return_exceptions=True)

    def figures(url: str) -> dict[str, float]:
        text = httpx.get(f"{url}/metrics", timeout=60).text
        return {name: float(value) for name, value in re.findall(r"^agentfw_(\w+) ([\d.]+)$", text, re.MULTILINE)}

    command = [sys.executable, "-c", "import asyncio, gateway as it; asyncio.run(it.slow_server())"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent)
    assert server.stdout is not None
    address = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    process, url, _run = start(folder, "--policy", "openai", f"--set=policy.base_url={address}")
    try:
        asyncio.run(streamed(f"{url}/v1", 0, 0))
        direct, through = asyncio.run(many(address)), asyncio.run(many(f"{url}/v1"))
        with processors_taken():
            asyncio.run(hung_up(f"{url}/v1"))
        end = time.monotonic() + 60
        while (left := figures(url))["answers_in_progress"] and time.monotonic() < end:
            time.sleep(0.1)
        after = asyncio.run(many(f"{url}/v1"))
    finally:
        for each in (process, server):
            each.terminate()
            each.communicate(timeout=120)
    return {
        "streams": options.streams,
        "seconds of each": options.seconds,
        "last first byte, directly": direct[0],
        "last first byte, through the gateway": through[0],
        "last end, directly": direct[1],
        "last end, through the gateway": through[1],
        "clients that hung up": options.hangups,
        "places still taken": left["answers_in_progress"],
        "of so many": left["places"],
        "last first byte afterwards": after[0],
    }


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
        streams=100,
        seconds=16,
        hangups=2000,
        seed=7,
    )
    measures = {"tokens": tokens, "kill": kill, "hostile": hostile, "streams": streams}
    parser.add_argument("what", choices=measures)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = measures[options.what](options, Path(folder))
    return tell(found, options.json, show)


if __name__ == "__main__":
    main()
