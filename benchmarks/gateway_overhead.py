"""What a gateway adds to the time of a request, beside a LiteLLM proxy.

    python benchmarks/gateway_overhead.py
    python benchmarks/gateway_overhead.py --litellm LITELLM/bin/litellm

The same client asks the same server directly, through `agentfw serve --policy openai`, and with `--litellm` through a
LiteLLM proxy, in turns: one request after the other, whole and streamed, and 200 sessions at once. Required of agentfw:
2 ms a request, alone and with 200 sessions at once, 3 ms until a stream's first token, and 0.3 of what LiteLLM adds.

Server, gateway and proxy are processes of their own; each gateway is one. The server answers at once, and refuses the
fields that OpenAI doesn't know. The client uses plain sockets.

The proxy needs an environment of its own: python -m venv LITELLM && LITELLM/bin/pip install "litellm[proxy]"
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from agentfw.report.statistics import Interval, bootstrap
from agentfw_benchmarks import Options, gateways, print_markdown, tell
from agentfw_benchmarks.litellm_proxy import litellm_proxy

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
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [{"index": 0, "message": SAID, "finish_reason": "stop"}],
        "usage": USAGE,
    }
).encode()
REFUSAL = json.dumps({"error": {"message": "Unrecognized request argument: return_token_ids", "code": None}}).encode()


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def upstream() -> Iterator[str]:
    command = [sys.executable, "-c", "import asyncio, gateway_overhead as it; asyncio.run(it.serve())"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def agentfw(address: str, folder: Path) -> Iterator[str]:
    settings = (f"--set=policy.base_url={address}", "--set=policy.model=served", "--set=max_turns=1000000")
    process, url, _ = gateways.serve(folder, "--policy", "openai", *settings)
    try:
        yield url
    finally:
        process.terminate()
        process.wait()


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
        content = json.dumps({"model": "served", "stream": stream, "messages": messages}).encode()
        head = f"POST {self._path} HTTP/1.1\r\nhost: {self._host}\r\nauthorization: Bearer sk-none\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        began = time.perf_counter()
        self._writer.write(head.encode() + content)
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


def median(values: Any, axis: int | None = None) -> Any:
    return np.median(values, axis=axis)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    times: Times = defaultdict(list)
    with ExitStack() as stack:
        address = stack.enter_context(upstream())
        ways = [Way("directly", address), Way("agentfw", stack.enter_context(agentfw(address, folder)))]
        if options.litellm:
            ways.append(Way("LiteLLM", stack.enter_context(litellm_proxy(options.litellm, address, address, folder))))
        asyncio.run(alone(ways, options.requests, times))
        asyncio.run(at_once(ways, options, times))
    rows = []
    for what in dict.fromkeys(what for what, _ in times):
        direct, here = (np.array(times[what, name]) for name in ("directly", "agentfw"))
        row: dict[str, Any] = {"what": what, "directly": float(np.median(direct))}
        row["agentfw adds"] = bounded(bootstrap(here - direct, statistic=median))
        if options.litellm:
            there = np.array(times[what, "LiteLLM"])
            row["LiteLLM adds"] = bounded(bootstrap(there - direct, statistic=median))
            row["ratio"] = row["agentfw adds"][0] / row["LiteLLM adds"][0]
        rows.append(row)
    return {"rows": rows}


def bounded(found: Interval) -> list[float]:
    return [found.estimate, found.low, found.high]


def show(found: dict[str, Any]) -> None:
    rows = []
    for row in found["rows"]:
        cells = [
            f"{value[0]:.2f} [{value[1]:.2f}, {value[2]:.2f}]" for value in row.values() if isinstance(value, list)
        ]
        ratio = [f"{row['ratio']:.2f}"] if "ratio" in row else []
        rows.append([row["what"], f"{row['directly']:.2f}", *cells, *ratio])
    print_markdown(["milliseconds", *list(found["rows"][0])[1:]], rows)


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        litellm=("", "the command litellm of an environment that has litellm[proxy]"),
        requests=(300, "requests of each way, one after the other, and as many streams"),
        at_once=(200, "sessions at once"),
        turns=(2, "requests of each of them in a round"),
        rounds=(5, "rounds of each way"),
    ).parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        return tell(measure(options, Path(folder)), options.json, show)


if __name__ == "__main__":
    main()
