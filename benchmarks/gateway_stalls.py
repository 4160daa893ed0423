"""A gateway whose database is locked, whose embedder is slow, or whose disk is full: do other requests wait for it?

    python benchmarks/gateway_stalls.py                     # as root, because it mounts a small disk
    python benchmarks/gateway_stalls.py --seconds 2 --json

A gateway shares its sessions in PostgreSQL, has a skill graph there, and its run folder on a disk of a few megabytes.
Users with a memory ask it all the time. Beside them, probes ask twenty times a second for what needs none of the three,
or not the one that is disturbed: the list of models, the health, an answer without a memory. Each round has, in random
order, probes alone, the same users without a disturbance, and each disturbance. What is compared is the 95th percentile
of a probe in one round, so that a busy machine slows both sides, and the median round counts. Required: at most 20 ms
more than alone.

`memory locked` locks the skills' table, `sessions locked` that of the sessions, `embedder slow` lets the server of the
embedder, which is another process, wait for two seconds, and `disk full` fills the disk. That comes last: afterwards
the gateway records nothing more, says so at /readyz, and has to be started again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from agentfw_benchmarks import Options, print_aligned, tell
from agentfw_benchmarks.postgres import server
from agentfw_memory.graph.index.embedders import open_embedder

ASKERS, EVERY, PATIENCE = 4, 0.05, 3.0
DISK = 8
"""Megabytes of the disk of the run."""
MODELS, HEALTH, ANSWER = "models", "health", "an answer without memory"
ALONE, UNDISTURBED, FULL = "probes alone", "undisturbed", "disk full"
BETWEEN = "between"
"""What waited is answered, and nothing is counted."""
FREE_OF = {
    "memory locked": (MODELS, HEALTH, ANSWER),
    "embedder slow": (MODELS, HEALTH, ANSWER),
    "sessions locked": (MODELS, HEALTH),
    FULL: (MODELS, HEALTH),
}
"""What needs nothing of what is disturbed."""
MORE = 20.0
"""Milliseconds that a disturbance may add."""
FIGURES = ("p95 ms", "more ms", "rounds with too much more", "more than beside the same users, ms")
"""Medians over the rounds, but for the third."""


class Embedding(BaseHTTPRequestHandler):
    """A server of embeddings, which waits while the file `slow` is there."""

    slow = Path()
    maker = open_embedder("hash:64")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        time.sleep(2.0 if self.slow.exists() else 0.0)
        rows = self.maker.embed(asked["input"]).tolist()
        body = json.dumps({"data": [{"index": place, "embedding": row} for place, row in enumerate(rows)]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: Any) -> None:
        pass


def embedding_server(slow: str) -> None:
    Embedding.slow = Path(slow)
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Embedding)
    print(serving.server_port, flush=True)
    serving.serve_forever()


@dataclass
class Load:
    """Who asks a gateway, and how long it took."""

    url: str
    now: tuple[int, str] = (0, BETWEEN)
    """The round, and what is disturbed."""
    over: threading.Event = field(default_factory=threading.Event)
    asking: threading.Event = field(default_factory=threading.Event)
    """Whether the users ask."""
    probes: dict[tuple[int, str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    """Seconds by round, disturbance and probe."""
    statuses: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def user(self, number: int) -> None:
        """Ask with a memory, one question after the other."""
        draw = random.Random(number)
        with httpx.Client(timeout=60) as http:
            while not self.over.is_set():
                if not self.asking.wait(EVERY):
                    continue
                words = f"what about w{draw.randrange(100)} and w{draw.randrange(100)}?"
                answer = http.post(f"{self.url}/s/u{number}/v1/chat/completions", json=question(words, f"user{number}"))
                self.statuses[f"{self.now[1]}: {answer.status_code}"] += 1
                time.sleep(0.1 if answer.status_code == 200 else 1.0)

    def probe(self, name: str) -> None:
        """Ask at fixed times, also while earlier ones aren't answered."""
        with httpx.Client(timeout=60) as http, ThreadPoolExecutor(40) as pool:
            due = time.perf_counter()
            while not self.over.is_set():
                pool.submit(self._one, http, name, self.now)
                due += EVERY
                time.sleep(max(0.0, due - time.perf_counter()))

    def _one(self, http: httpx.Client, name: str, now: tuple[int, str]) -> None:
        if name not in FREE_OF.get(now[1], (MODELS, HEALTH, ANSWER)):
            return
        began = time.perf_counter()
        if name == ANSWER:
            http.post(f"{self.url}/v1/chat/completions", json=question("hello", ""))
        else:
            http.get(f"{self.url}{'/v1/models' if name == MODELS else '/healthz'}")
        self.probes[*now, name].append(time.perf_counter() - began)


def question(words: str, user: str) -> dict[str, Any]:
    named = {"user": user} if user else {}
    return {"model": "scripted", "messages": [{"role": "user", "content": words}], **named}


@contextmanager
def locked(url: str, table: str) -> Iterator[None]:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


@contextmanager
def there(path: Path) -> Iterator[None]:
    path.touch()
    yield
    path.unlink()


@contextmanager
def full(folder: Path) -> Iterator[None]:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(2**12)):
                pass
        except OSError:
            pass
    yield
    filler.unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def running(command: Sequence[str], until: Callable[[str], object], **environment: str) -> Iterator[Any]:
    """A process, and what it says first."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, **environment}
        )
        assert process.stdout is not None
        try:
            text = ""
            while not text.rstrip().endswith(("}", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")):
                line = process.stdout.readline()
                if not line:
                    errors.seek(0)
                    raise SystemExit(errors.read().decode())
                text += line
            yield until(text)
        finally:
            process.kill()
            process.communicate()


def measure(seconds: float, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name, server() as url, small_disk(Path(name) / "disk") as disk:
        slow = Path(name) / "slow"
        embedder = running([sys.executable, __file__, "--embedder", str(slow)], int)
        settings = {"path": url, "embedder": "http:hash", "patience": PATIENCE}
        options = ["--policy", "scripted", "--set", 'policy.replies=["yes"]', "--memory", "skillgraph"]
        for key, value in settings.items():
            options += ["--set", f"memory.skillgraph.{key}={value}"]
        command = [sys.executable, "-m", "agentfw", "serve", "--port", "0", "--runs", str(disk), "--json"]
        with embedder as port:
            where = f"http://127.0.0.1:{port}/v1"
            gateway = running([*command, "--sessions", url, *options], json.loads, AGENTFW_EMBEDDINGS_URL=where)
            with gateway as about:
                disturbances: dict[str, Callable[[], AbstractContextManager[None]]] = {
                    "memory locked": partial(locked, url, "skillgraph.live"),
                    "embedder slow": partial(there, slow),
                    "sessions locked": partial(locked, url, "agentfw_session"),
                    FULL: partial(full, disk),
                }
                return _measured(Load(about["url"]), disturbances, seconds, rounds)


def _measured(
    load: Load, disturbances: Mapping[str, Callable[[], AbstractContextManager[None]]], seconds: float, rounds: int
) -> dict[str, Any]:
    draw, last = random.Random(7), rounds
    with ThreadPoolExecutor(ASKERS + 3) as pool:
        asked = [pool.submit(load.probe, name) for name in (MODELS, HEALTH, ANSWER)]
        asked += [pool.submit(load.user, number) for number in range(ASKERS)]
        load.asking.set()
        time.sleep(PATIENCE + seconds)  # the first ones find a cold process
        for number in range(rounds + 1):
            each = [ALONE, UNDISTURBED, *disturbances]
            each.remove(FULL)
            draw.shuffle(each)
            for name in each if number < last else [ALONE, FULL]:
                if name == ALONE:
                    load.asking.clear()
                    time.sleep(1.0)
                with disturbances.get(name, nullcontext)():
                    load.now = number, name
                    time.sleep(seconds)
                    load.now = number, BETWEEN
                load.asking.set()
                if name in disturbances and name != FULL:
                    time.sleep(PATIENCE)
        load.over.set()
        for one in asked:
            one.result()
    p95 = {key: 1000 * float(np.percentile(times, 95)) for key, times in load.probes.items()}
    found: dict[str, Any] = {}
    for what in (ALONE, UNDISTURBED, *disturbances):
        counted = [last] if what == FULL else range(rounds)
        for name in FREE_OF.get(what, (MODELS, HEALTH, ANSWER)):
            mine, alone, users = (
                np.array([p95[number, than, name] for number in counted if (number, than, name) in p95])
                for than in (what, ALONE, UNDISTURBED)
            )
            figures = found[f"{what}: {name}"] = {
                "p95 ms": float(np.median(mine)),
                "more ms": float(np.median(mine - alone)),
                "rounds with too much more": int((mine - alone > MORE).sum()),
            }
            if len(users) == len(mine):
                figures["more than beside the same users, ms"] = float(np.median(mine - users))
    return {
        "rounds": rounds,
        "probes": found,
        "worst ms": 1000 * max(max(times) for (_, what, _), times in load.probes.items() if what in disturbances),
        "answers to users with a memory": dict(sorted(load.statuses.items())),
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, seconds=(5.0, "length of a disturbance"), rounds=(3, "of disturbances"))
    parser.add_argument("--embedder", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.embedder:
        embedding_server(options.embedder)
    return tell(measure(options.seconds, options.rounds), options.json, show)


def show(result: Mapping[str, Any]) -> None:
    rows = [[name, *(f"{each.get(figure, 0):.1f}" for figure in FIGURES)] for name, each in result["probes"].items()]
    print_aligned(["what: probe", *FIGURES], rows)
    print(f"worst {result['worst ms']:.0f} ms; users with a memory: {result['answers to users with a memory']}")


if __name__ == "__main__":
    main()
