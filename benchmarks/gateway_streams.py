"""Many streams at once: how long does the slowest wait for its first byte, and do clients that hang up cost a place?

    python benchmarks/gateway_streams.py                                # 100 streams of 16 seconds
    python benchmarks/gateway_streams.py --streams 1000 --seconds 4

The same server is asked directly and through the gateway. Then clients hang up at random bytes, while other processes
take all processors away. Do all places come back, and are the streams afterwards as fast? Required: the last first byte
at most 1.5 s later than directly with 100 streams and 6 s with 1,000, and no place lost.
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

from agentfw_benchmarks import TESTS, Options, tell

sys.path.insert(0, str(TESTS / "plugins" / "gateway"))


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
    from killing import start  # type: ignore[import-not-found]

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

    command = [sys.executable, "-c", "import asyncio, gateway_streams as it; asyncio.run(it.slow_server())"]
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
    options = Options(__doc__, streams=100, seconds=16, hangups=2000, seed=7).parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        return tell(streams(options, Path(folder)), options.json, show)


if __name__ == "__main__":
    main()
