"""What a gateway adds to the time of a request beside a LiteLLM proxy, and how it stands many streams at once.

    python benchmarks/gateway_speed.py overhead --litellm LITELLM/bin/litellm
    python benchmarks/gateway_speed.py overhead --memory none           # with nothing that the proxy hasn't, too
    python benchmarks/gateway_speed.py streams                          # 100 streams of 16 seconds
    python benchmarks/gateway_speed.py streams --streams 1000 --seconds 4

`overhead`: the same client asks the same server directly, through `agentfw serve --policy openai`, and with `--litellm`
through a LiteLLM proxy, in turns: one request after the other, whole and streamed, and 200 sessions at once. Required
of agentfw: 2 ms a request, 3 ms until a stream's first token, and 0.3 of what LiteLLM adds. Server, gateway and proxy
are processes of their own. The server answers at once, and refuses the fields that OpenAI doesn't know. The proxy needs
an environment of its own: python -m venv LITELLM && LITELLM/bin/pip install "litellm[proxy]"

`streams`: how long does the slowest wait for its first byte, directly and through the gateway? Then clients hang up at
random bytes, while other processes take all processors away. Do all places come back, and are the streams afterwards as
fast? Required: the last first byte at most 1.5 s later than directly with 100 streams and 6 s with 1,000, and no place
lost.
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
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

from agentfw.report.statistics import bootstrap
from agentfw_benchmarks import Options, gateways, tell

WARM_UP = 30
"""Requests of each way before it is measured."""
GOAL = "You help in a tea house. " + "Say what there is, and what it costs; be brief and friendly. " * 12
HISTORY = [
    {"role": "user", "content": "Good morning! Which teas do you have today?"},
    {"role": "assistant", "content": "Good morning! Sencha, oolong and mint today."},
]
SENTENCE = "The oolong is the one that I would take to a long afternoon like this."
WORDS = SENTENCE.split()
USAGE = {"prompt_tokens": 250, "completion_tokens": len(WORDS), "total_tokens": 250 + len(WORDS)}


class Upstream(asyncio.Protocol):
    """A model's server that takes no time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._received = transport, b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            named = self._received[:end].lower().partition(b"content-length:")[2].split(b"\r\n")[0]
            whole = end + 4 + int(named or 0)
            if len(self._received) < whole:
                return
            body, self._received = json.loads(self._received[end + 4 : whole] or b"{}"), self._received[whole:]
            if "return_token_ids" in body:
                self._answer(400, "application/json", [REFUSAL])
            elif body.get("stream"):
                usage = (body.get("stream_options") or {}).get("include_usage")
                self._answer(200, "text/event-stream", [*EVENTS, *([COUNTS] if usage else []), b"data: [DONE]\n\n"])
            else:
                self._answer(200, "application/json", [WHOLE])

    def _answer(self, status: int, kind: str, parts: Sequence[bytes]) -> None:
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n"
        if len(parts) == 1:
            self._transport.write(f"{head}content-length: {len(parts[0])}\r\n\r\n".encode() + parts[0])
            return
        self._transport.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        for part in parts:
            self._transport.write(b"%x\r\n%b\r\n" % (len(part), part))
        self._transport.write(b"0\r\n\r\n")


def chunk(**values: Any) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "served"}
    return b"data: " + json.dumps({**head, **values}).encode() + b"\n\n"


def event(delta: dict[str, str], finish: str | None = None) -> bytes:
    return chunk(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])


EVENTS = [event({"role": "assistant", "content": ""}), *(event({"content": f" {word}"}) for word in WORDS)]
EVENTS.append(event({}, "stop"))
COUNTS = chunk(choices=[], usage=USAGE)
SAID = {"role": "assistant", "content": SENTENCE}
WHOLE = json.dumps(
    {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "served", "usage": USAGE}
    | {"choices": [{"index": 0, "message": SAID, "finish_reason": "stop"}]}
).encode()
REFUSAL = json.dumps({"error": {"message": "Unrecognized request argument: return_token_ids", "code": None}}).encode()


async def quick_server() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def server_of(name: str) -> Iterator[str]:
    """The address of one of the two servers, in a process of its own."""
    command = [sys.executable, "-c", f"import asyncio, gateway_speed as it; asyncio.run(it.{name}())"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def agentfw(address: str, folder: Path, *more: str) -> Iterator[str]:
    settings = (f"--set=policy.base_url={address}", "--set=policy.model=served", "--set=max_turns=1000000")
    with gateways.serving(folder, "--policy", "openai", *settings, *more) as (url, _):
        yield url


def posted(path: str, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer sk-none\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n".encode() + content


class Client:
    """One connection."""

    def __init__(self, url: str, path: str) -> None:
        self._host, _, rest = url.removeprefix("http://").partition(":")
        self._port, _, _ = rest.partition("/")
        self._path = path

    async def __aenter__(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection(self._host, int(self._port))
        return self

    async def __aexit__(self, *error: object) -> None:
        self._writer.close()

    async def ask(self, number: int, *, stream: bool) -> tuple[float, float]:
        """Milliseconds until the first token of the answer, and until its end."""
        said = {"role": "user", "content": f"And which one would you take yourself, for guest {number}?"}
        messages = [{"role": "system", "content": GOAL}, *HISTORY, said]
        request = posted(self._path, {"model": "served", "stream": stream, "messages": messages})
        began = time.perf_counter()
        self._writer.write(request)
        answered = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        assert answered.startswith(b"http/1.1 200"), answered
        received, first = b"", None
        if b"chunked" in answered:
            while (size := int(await self._reader.readline(), 16)) or received == b"":
                received += (await self._reader.readexactly(size + 2))[:-2]
                if first is None and WORDS[0].encode() in received:
                    first = time.perf_counter()
            await self._reader.readline()
        else:
            received = await self._reader.readexactly(int(answered.partition(b"content-length:")[2].split(b"\r\n")[0]))
        ended = time.perf_counter()
        assert WORDS[-1].encode() in received, received
        return ((first or ended) - began) * 1000, (ended - began) * 1000


class Way(NamedTuple):
    """One way to the server."""

    name: str
    url: str

    def client(self, session: str) -> Client:
        path = f"/s/{session}/v1/chat/completions" if self.name == "agentfw" else "/v1/chat/completions"
        return Client(self.url, path)


Times = dict[tuple[str, str], list[float]]
"""Milliseconds of each way, by what was measured, in the order of the turns."""


async def alone(ways: Sequence[Way], requests: int, times: Times) -> None:
    async with AsyncExitStack() as stack:
        clients = [(way, await stack.enter_async_context(way.client("alone"))) for way in ways]
        for number in range(-WARM_UP, requests):
            for place in range(len(ways)):  # each way comes first as often as the others
                way, client = clients[(number + place) % len(ways)]
                _, whole = await client.ask(number, stream=False)
                first, end = await client.ask(number, stream=True)
                if number >= 0:
                    times["a request", way.name].append(whole)
                    times["until a stream's first token", way.name].append(first)
                    times["until a stream's end", way.name].append(end)


async def at_once(ways: Sequence[Way], options: argparse.Namespace, times: Times) -> None:
    """Rounds of many sessions, each of which asks the next as soon as it is answered."""

    async def lead(way: Way, number: int, round: int, stream: bool) -> None:
        async with way.client(f"many-{round}-{number}") as client:
            for turn in range(options.turns):
                await client.ask(turn, stream=stream)

    for stream in (False, True):
        kind = "streams" if stream else "requests"
        count = options.at_once * options.turns
        for round in range(-1, options.rounds):
            for place in range(len(ways)):
                way = ways[(round + place) % len(ways)]
                began = time.perf_counter()
                await asyncio.gather(*(lead(way, number, round, stream) for number in range(options.at_once)))
                if round >= 0:
                    seconds = time.perf_counter() - began
                    times[f"a request, {options.at_once} {kind} at once", way.name].append(seconds * 1000 / count)


def added(here: np.ndarray, direct: np.ndarray) -> list[float]:
    """The median of what is added, with its interval."""
    found = bootstrap(here - direct, statistic=np.median)
    return [found.estimate, found.low, found.high]


def overhead(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    times: Times = defaultdict(list)
    with ExitStack() as stack:
        address = stack.enter_context(server_of("quick_server"))
        gateway = stack.enter_context(agentfw(address, folder, "--memory", options.memory))
        ways = [Way("directly", address), Way("agentfw", gateway)]
        if options.litellm:
            proxy = gateways.litellm_proxy(options.litellm, address, address, folder)
            ways.append(Way("LiteLLM", stack.enter_context(proxy)))
        asyncio.run(alone(ways, options.requests, times))
        asyncio.run(at_once(ways, options, times))
    rows = []
    for what in dict.fromkeys(what for what, _ in times):
        direct = np.array(times[what, "directly"])
        row: dict[str, Any] = {"what": what, "directly": float(np.median(direct))}
        for way in ways[1:]:
            row[f"{way.name} adds"] = added(np.array(times[what, way.name]), direct)
        if options.litellm:
            row["ratio"] = row["agentfw adds"][0] / row["LiteLLM adds"][0]
        rows.append(row)
    return {"rows": rows}


# Many streams at once


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
    host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
    said = {"role": "user", "content": f"{seconds}"}
    body = {"model": "served", "stream": True, "messages": [said], "user": f"u{number}"}
    given = posted("/v1/chat/completions", body)
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
    async def many(url: str) -> list[float]:
        times = await asyncio.gather(*(streamed(url, number, options.seconds) for number in range(options.streams)))
        return [max(some) for some in zip(*times, strict=True)]

    async def hung_up(url: str) -> None:
        draw, places = random.Random(options.seed), asyncio.Semaphore(50)

        async def one(number: int) -> None:
            async with places:
                await streamed(url, number, 30, draw.randrange(700))

        await asyncio.gather(*(one(number) for number in range(options.hangups)), return_exceptions=True)

    def figure(url: str, name: str) -> float:
        text = httpx.get(f"{url}/metrics", timeout=60).text
        return float(re.findall(rf"^agentfw_{name} ([\d.]+)$", text, re.MULTILINE)[0])

    with server_of("slow_server") as address, agentfw(address, folder, "--memory", "none") as url:
        asyncio.run(streamed(f"{url}/v1", 0, 0))
        direct, through = asyncio.run(many(address)), asyncio.run(many(f"{url}/v1"))
        with processors_taken():
            asyncio.run(hung_up(f"{url}/v1"))
        end = time.monotonic() + 60
        while (left := figure(url, "answers_in_progress")) and time.monotonic() < end:
            time.sleep(0.1)
        places = figure(url, "places")
        after = asyncio.run(many(f"{url}/v1"))
    return {
        "streams": options.streams,
        "seconds of each": options.seconds,
        "last first byte, directly": direct[0],
        "last first byte, through the gateway": through[0],
        "last end, directly": direct[1],
        "last end, through the gateway": through[1],
        "clients that hung up": options.hangups,
        "places still taken": left,
        "of so many": places,
        "last first byte afterwards": after[0],
    }


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        memory=("skillgraph", "of the gateway, as agentfw serve has it by default, or none"),
        litellm=("", "the command litellm of an environment that has litellm[proxy]"),
        requests=(300, "requests of each way, one after the other, and as many streams"),
        at_once=(200, "sessions at once"),
        turns=(2, "requests of each of them in a round"),
        rounds=(5, "rounds of each way"),
        streams=(100, "streams at once"),
        seconds=(16, "of each stream"),
        hangups=(2000, "clients that hang up"),
        seed=7,
    )
    parser.add_argument("what", choices=("overhead", "streams"))
    options = parser.parse_args(arguments)
    measure = overhead if options.what == "overhead" else streams
    with tempfile.TemporaryDirectory() as folder:
        return tell(measure(options, Path(folder)), options.json)


if __name__ == "__main__":
    main()
