"""The gateway in front of a server that fails in every way, with clients that hang up.

    python benchmarks/gateway_chaos.py --seconds 180

The upstream stalls, hangs up before or in the middle of an answer, sends garbage, refuses (429, 401, 400, 500), sends
byte by byte, ends in the middle of a character, or sends 50 MB, as each request says at random; half of the requests
ask for a stream. In a third of the requests the client hangs up after at most two seconds, if it isn't answered before.
Checked: whoever waits gets what the fault stands for; who asks for a right answer gets its own; no answer, file or
connection is left at the end, and memory doesn't grow with time; every session can be read. How long right answers take
is told beside the same load without faults.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from agentfw_benchmarks import TESTS, Options, tell

sys.path.insert(0, str(TESTS / "plugins" / "gateway"))

FAULTS = {
    "fine": {"200"},
    "stall": {"504"},
    "hang up": {"502"},
    "hang up in the middle": {"502", "200 with an error"},
    "garbage": {"502"},
    "no HTTP": {"502"},
    "429": {"429"},
    "401": {"401"},
    "400": {"400"},
    "500": {"500"},
    "slow bytes": {"200"},
    "half a character": {"502", "200", "200 with an error"},
    "50 MB": {"502", "200 with an error"},
}
"""What may go wrong, and what whoever waits is answered."""
RARE = {"50 MB": 0.1}
PAUSE = 4.0
"""Mean of the seconds between two requests of a client."""
TURNS = 5
"""Requests of a client in each of its sessions."""


def of_head(status: int, kind: str, length: int | None, *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", "connection: close", *more]
    lines += [] if length is None else [f"content-length: {length}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Upstream:
    """Fails as it is told."""

    def __init__(self) -> None:
        self.open = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
                body = json.loads(await reader.readexactly(length))
                work = asyncio.create_task(self._send(body, writer))
                gone = asyncio.create_task(reader.read(1))
                await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
                for task in (work, gone):
                    task.cancel()
                await asyncio.gather(work, gone, return_exceptions=True)
        finally:
            self.open -= 1
            writer.close()

    async def _send(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        fault, _, word = body["messages"][-1]["content"].partition(": ")
        message = {"role": "assistant", "content": f"said {word} äöü"}
        kind, whole = "application/json", json.dumps({"choices": [{"index": 0, "message": message}]}).encode()
        if body.get("stream"):
            kind = "text/event-stream"
            parts = [{"choices": [{"index": 0, "delta": {"content": f"{piece} "}}]} for piece in ("said", word, "äöü")]
            parts.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            events = [f"data: {json.dumps(part, ensure_ascii=False)}\n\n".encode() for part in parts]
            whole = b"".join([*events, b"data: [DONE]\n\n"])
        length = None if body.get("stream") else len(whole)
        if fault == "stall":
            await asyncio.sleep(3600)
        elif fault == "no HTTP":
            writer.write(random.randbytes(200))
        elif fault.isdigit():
            error = json.dumps({"error": {"message": "no", "type": "x", "code": "y"}}).encode()
            writer.write(of_head(int(fault), "application/json", len(error), "retry-after: 7") + error)
        elif fault == "garbage":
            writer.write(of_head(200, "application/json", 200) + random.randbytes(200))
        elif fault == "50 MB":
            writer.write(of_head(200, kind, 50_000_000))
            for _ in range(50):
                writer.write(b"data: " + b"x" * 999_993 + b"\n")
                await writer.drain()
        elif fault != "hang up":
            writer.write(of_head(200, kind, length))
            if fault == "slow bytes":
                for octet in whole:
                    writer.write(bytes([octet]))
                    await writer.drain()
                    await asyncio.sleep(0.003)
            elif fault == "hang up in the middle":
                writer.write(whole[: len(whole) // 2])
            elif fault == "half a character":
                writer.write(whole[: whole.index("ä".encode()) + 1] if body.get("stream") else whole)
            else:
                writer.write(whole)
        await writer.drain()


class Client:
    """Asks again and again."""

    def __init__(self, url: str, number: int, faults: list[str]) -> None:
        self.host, _, self.port = url.removeprefix("http://").partition(":")
        self.number, self.faults, self.draw = number, faults, random.Random(number)
        self.answers = Counter[tuple[str, str]]()
        self.left, self.mixed_up, self.seconds = 0, 0, list[float]()

    async def lead(self, end: float) -> None:
        asked = 0
        while time.monotonic() < end:
            asked += 1
            weights = [RARE.get(fault, 1.0) for fault in self.faults]
            fault = self.draw.choices(self.faults, weights)[0]
            word, stream = f"w{self.number}.{asked}", self.draw.random() < 0.5
            said = {"role": "user", "content": f"{fault}: {word}"}
            content = json.dumps({"model": "served", "stream": stream, "messages": [said]}).encode()
            path = f"/s/c{self.number}-{asked // TURNS}/v1/chat/completions"
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(content)}"
            leaves = self.draw.uniform(0, 2) if self.draw.random() < 1 / 3 else None
            began = time.monotonic()
            reader, writer = await asyncio.open_connection(self.host, int(self.port))
            try:
                writer.write(f"{head}\r\n\r\n".encode() + content)
                async with asyncio.timeout(leaves):
                    answer = await reader.read()
            except TimeoutError:
                self.left += 1
                continue
            except OSError:
                answer = b""
            finally:
                writer.close()
            status = answer[9:12].decode("latin-1") or "no answer"
            status += " with an error" if status == "200" and b'"error"' in answer else ""
            self.answers[fault, status] += 1
            if fault == "fine":
                self.seconds.append(time.monotonic() - began)
                self.mixed_up += status == "200" and word.encode() not in answer
            await asyncio.sleep(self.draw.uniform(0, 2 * PAUSE))


def state(process: int, url: str) -> dict[str, float]:
    """What the gateway holds."""
    rows = [line.rsplit(" ", 1) for line in httpx.get(f"{url}/metrics").text.splitlines() if line[0] != "#"]
    told = {name: float(value) for name, value in rows}
    memory = next(line for line in Path(f"/proc/{process}/status").read_text().splitlines() if "VmRSS" in line)
    return {
        "answers in progress": told["agentfw_answers_in_progress"],
        "waiting": told["agentfw_requests_waiting"],
        "sessions": told["agentfw_sessions"],
        "open files": len(list(Path(f"/proc/{process}/fd").iterdir())),
        "memory in MB": int(memory.split()[1]) // 1000,
    }


async def played(options: argparse.Namespace, folder: Path, faults: list[str], seconds: float) -> dict[str, Any]:
    from endless_upstream import until  # type: ignore[import-not-found]
    from killing import start  # type: ignore[import-not-found]

    from agentfw.runs import read_sessions

    upstream = Upstream()
    server = await asyncio.start_server(upstream.answer, "127.0.0.1", 0, backlog=1000)
    port = server.sockets[0].getsockname()[1]
    settings = {"base_url": f"http://127.0.0.1:{port}/v1", "model": "served", "token_ids": "off"}
    settings |= {"concurrency": str(2 * options.clients), "deadline": str(options.deadline)}
    given = [f"--set=policy.{name}={value}" for name, value in settings.items()]
    asked = ("--policy", "openai", "--set=max_turns=1000000", "--max-concurrency", str(2 * options.clients), *given)
    asked += ("--idle", str(options.idle))
    process, url, run = await asyncio.to_thread(start, folder, *asked)
    told = asyncio.create_task(asyncio.to_thread(process.stderr.read))
    try:
        before = await asyncio.to_thread(state, process.pid, url)
        clients = [Client(url, number, faults) for number in range(options.clients)]
        held = []
        for part in range(1, options.parts + 1):
            end = time.monotonic() + seconds / options.parts
            await asyncio.gather(*(client.lead(end) for client in clients))
            await asyncio.to_thread(until, lambda: not upstream.open, 120)

            def idle() -> bool:
                now = state(process.pid, url)
                return not now["answers in progress"] and not now["waiting"]

            await asyncio.to_thread(until, idle, 120)
            held.append({"part": part, **await asyncio.to_thread(state, process.pid, url)})
    finally:
        process.terminate()
        err = await told
        await asyncio.to_thread(process.wait)
        server.close()
    answers = sum((client.answers for client in clients), Counter[tuple[str, str]]())
    seconds_of = [each for client in clients for each in client.seconds]
    return {
        "answers": {f"{fault}: {status}": count for (fault, status), count in sorted(answers.items())},
        "wrong": sum(count for (fault, status), count in answers.items() if status not in FAULTS[fault]),
        "hung up": sum(client.left for client in clients),
        "right answers mixed up": sum(client.mixed_up for client in clients),
        "held before": before,
        "held after each part": held,
        "seconds of a right answer (median, 95%)": [
            statistics.median(seconds_of),
            statistics.quantiles(seconds_of, n=20)[-1],
        ],
        "sessions read": len(read_sessions(run)),
        "exit code": process.returncode,
        "errors on stderr": sum("Traceback" in line for line in err.splitlines()),
    }


def show(found: dict[str, Any]) -> None:
    for name, value in found.items():
        print(f"{name}: {json.dumps(value)}")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        clients=(200, "clients at once"),
        seconds=(180.0, "how long they ask"),
        parts=(3, "how often it is looked at what the gateway holds"),
        deadline=(15.0, "seconds of silence upstream that the gateway allows"),
        idle=(3600.0, "seconds after which the gateway ends an unused session, and no longer has it in memory"),
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = asyncio.run(played(options, folder / "faults", list(FAULTS), options.seconds))
        calm = asyncio.run(played(options, folder / "calm", ["fine"], options.seconds / 6))
    found["the same load without faults"] = calm["seconds of a right answer (median, 95%)"]
    return tell(found, options.json, show)


if __name__ == "__main__":
    main()
