"""Where the time goes that a gateway adds to a request, by part.

    python benchmarks/gateway_split.py

`agentfw serve` in front of a server that takes no time (that of gateway_overhead.py) is asked one request after the
other, whole and streamed, while py-spy looks at it. Shown is the processor's time of a request, divided by the part
whose code was running or had called what was: the client for the model's server (httpx and what is below it), the
server (uvicorn and Starlette), the journal, the rest of agentfw, and the event loop beside them. The client is also
measured alone, beside aiohttp, with the same exchanges in turns. It needs `py-spy` and `aiohttp`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gateway_overhead import GOAL, HISTORY, WARM_UP, Way, agentfw, processor_time, upstream

from agentfw_benchmarks import Options, print_markdown, tell
from agentfw_plugins.policies.http.endpoint import Endpoint

PARTS = (
    ("the client for the model's server", r"/(httpx|httpcore|anyio|sniffio)/|hanging_up\.py"),
    ("the HTTP server", r"/(uvicorn|starlette)/"),
    ("the journal", r"runs/records/"),
    ("the rest of agentfw", r"(framework|plugins)/agentfw(_plugins)?/(?!gateway/command|__main__)"),
)
"""What the frames of each part have in their names. A sample belongs to the innermost frame that has such a name."""
OTHERS = "the event loop beside these"
LOOKS = 250
"""How often py-spy looks, a second."""
EXCHANGES = 20
"""Exchanges of each client in a turn."""


def part_of(stack: str) -> str:
    for frame in reversed(stack.split(";")):
        for part, pattern in PARTS:
            if re.search(pattern, frame):
                return part
    return OTHERS


async def looked_at(way: Way, seconds: int, folder: Path, *, stream: bool) -> dict[str, float]:
    """Milliseconds of the processor for a request, and of each part of it."""
    async with way.client("alone") as client:
        for number in range(WARM_UP):
            await client.ask(number, stream=stream)
        command = ["py-spy", "record", "--pid", str(way.process), "--duration", str(seconds), "--rate", str(LOOKS)]
        found = folder / f"stacks-{stream}"
        quiet = subprocess.DEVNULL
        looking = subprocess.Popen(
            [*command, "--gil", "--full-filenames", "--format", "raw", "--output", found], stdout=quiet, stderr=quiet
        )
        before, asked = processor_time(way.process), 0
        while looking.poll() is None:
            await client.ask(asked, stream=stream)
            asked += 1
        each = (processor_time(way.process) - before) / asked
    counts = Counter[str]()
    for line in found.read_text("utf-8").splitlines():
        stack, _, count = line.rpartition(" ")
        counts[part_of(stack)] += int(count)
    return {"all": each, **{part: each * count / counts.total() for part, count in counts.items()}}


async def clients_alone(address: str, turns: int) -> dict[str, float]:
    """Milliseconds of the processor for an exchange: of the gateway's client, and of aiohttp."""
    import aiohttp

    content = json.dumps({"model": "served", "messages": [{"role": "system", "content": GOAL}, *HISTORY]}).encode()
    path, headers = "/chat/completions", {"content-type": "application/json"}
    endpoint = Endpoint(address, concurrency=1, deadline=60, retries=0)

    async def own() -> bytes:
        async with endpoint.once(path, content, {}) as response:
            return b"".join([part async for part in response.aiter_bytes()])

    async def other() -> bytes:
        async with session.post(address + path, data=content, headers=headers) as response:
            return b"".join([part async for part in response.content.iter_any()])

    async with aiohttp.ClientSession() as session:
        asks: dict[str, Callable[[], Awaitable[bytes]]] = {"of the gateway (httpx)": own, "aiohttp": other}
        times: dict[str, list[float]] = {name: [] for name in asks}
        for turn in range(-1, turns):
            for name, ask in asks.items():
                began = time.process_time()
                for _ in range(EXCHANGES):
                    assert await ask()
                if turn >= 0:
                    times[name].append((time.process_time() - began) * 1000 / EXCHANGES)
    await endpoint.close()
    return {name: float(np.median(each)) for name, each in times.items()}


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    with upstream() as (address, _):
        with agentfw(address, folder) as (url, process):
            way = Way("agentfw", url, process)
            whole = asyncio.run(looked_at(way, options.seconds, folder, stream=False))
            streamed = asyncio.run(looked_at(way, options.seconds, folder, stream=True))
        alone = asyncio.run(clients_alone(address, options.turns))
    parts = ["all", *(name for name, _ in PARTS), OTHERS]
    rows = [{"part": part, "a request": whole.get(part, 0.0), "a stream": streamed.get(part, 0.0)} for part in parts]
    return {"rows": rows, "the client alone": alone}


def show(found: dict[str, Any]) -> None:
    rows = [[row["part"], f"{row['a request']:.2f}", f"{row['a stream']:.2f}"] for row in found["rows"]]
    print_markdown(["milliseconds of the processor", "a request", "a stream"], rows)
    for name, value in found["the client alone"].items():
        print(f"an exchange with a client alone, {name}: {value:.2f}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        seconds=(20, "how long whole requests are looked at, and streams"),
        turns=(30, "turns of each client"),
    ).parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        return tell(measure(options, Path(folder)), options.json, show)


if __name__ == "__main__":
    main()
