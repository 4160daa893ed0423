"""What a gateway with a long history, or one that shares a PostgreSQL, costs: its start, and each turn.

    python benchmarks/gateway_costs.py start                     # 34,000 turns of 12 KB
    python benchmarks/gateway_costs.py start --gigabytes 10      # doubled in the PostgreSQL until they take so many
    python benchmarks/gateway_costs.py turns                     # 400 turns, with a memory in the database and without

`start`: seconds until it says that it is alive, and until it takes requests. The history is that of sessions of ten
turns, of which one in twenty goes on. It is in the folder of a run, as one gateway keeps it, and in a PostgreSQL, as
gateways that share sessions do.

`turns`: flushes, transactions, log and CPU. One client asks, one turn after the other, in sessions of ten turns in
which the user says something about themselves. The figures of the database are its own (`pg_stat_io` of PostgreSQL 18,
`pg_stat_database` and `pg_stat_wal`), from before the start of the gateway to its end. The tables are there by then.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil

from agentfw import Episode, Message, Task, Turn
from agentfw.runs import encoded
from agentfw_benchmarks import Options, free_port, tell
from agentfw_benchmarks.gateways import serve
from agentfw_benchmarks.postgres import processor_of, server
from agentfw_plugins.gateway.live import opened
from agentfw_plugins.gateway.sessions.session_database import NEWS, SESSIONS, SessionDatabase

TURNS_OF_A_SESSION, BYTES, GOING_ON = 10, 12_000, 20
OPTIONS = ("--policy", "scripted", "--set", 'policy.replies=["yes"]', "--memory", "none", "--idle", "1000000")


def news_of(session: int) -> Iterator[dict[str, Any]]:
    """The records of a session, turn by turn."""
    task = Task(session, 0, user=f"u{session % 100}", query=f"s{session}")
    words = f"What about number {session}? " * (BYTES // 30)
    for turn in range(TURNS_OF_A_SESSION):
        messages = [Message("user", f"{turn}: {words}"), Message("assistant", "yes")]
        shown = tuple(range(2 * turn + 1))
        given = Turn(turn, float(turn), turn + 0.5, shown=shown, text="yes")
        finish = "idle" if turn == TURNS_OF_A_SESSION - 1 and session % GOING_ON else ""
        yield Episode(task, messages=messages, turns=[given], finish=finish).to_record()


def fill_folder(runs: Path, sessions: int) -> int:
    """Write the history as a gateway does. Returns its size."""

    async def template() -> tuple[Path, dict[str, Any]]:
        async with opened(runs, policy="scripted", assignments=['policy.replies=["yes"]']) as live:
            session = live.begin("first")
            await session.answer([Message("user", "hello")])
            await live.conclude(session)
        return live.folder.path, json.loads((live.folder.path / "metrics.jsonl").read_text("utf-8"))

    run, line = asyncio.run(template())
    with (
        (run / "turns.jsonl").open("ab") as turns,
        (run / "episodes.jsonl").open("ab") as episodes,
        (run / "metrics.jsonl").open("ab") as metrics,
    ):
        for number in range(1, sessions + 1):
            records = list(news_of(number))
            for record in records:
                turns.write(encoded(record))
            if number % GOING_ON:
                parts = [Episode.from_record(record) for record in records]
                whole = replace(
                    parts[-1],
                    messages=[message for part in parts for message in part.messages],
                    turns=[turn for part in parts for turn in part.turns],
                )
                episodes.write(encoded(whole.to_record()))
                metrics.write(encoded({**line, "episode": whole.id, "user": whole.task.user}))
    return sum(file.stat().st_size for file in run.glob("*.jsonl"))


def fill_database(where: str, sessions: int, gigabytes: float) -> str:
    """Write the history as gateways do. Returns its size."""
    import psycopg

    database = SessionDatabase(where)
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {NEWS.name} ALTER record SET STORAGE EXTERNAL")
    for first in range(1, sessions + 1, 100):
        numbers = range(first, min(first + 100, sessions + 1))
        rows = [
            {"number": one, "first": f"s{one}", "again": 0, "user": f"u{one % 100}", "version": TURNS_OF_A_SESSION}
            | {"holder": "", "used": time.time(), "finish": "idle" if one % GOING_ON else ""}
            | {"ended": time.time() if one % GOING_ON else None}
            for one in numbers
        ]
        news = [
            {"session": one, "version": version, "record": record}
            for one in numbers
            for version, record in enumerate(news_of(one), start=1)
        ]
        with database.transaction() as connection:
            connection.execute(SESSIONS.insert(), rows)
            connection.execute(NEWS.insert(), news)
    database.close()
    columns = ", ".join(f'"{column.name}"' for column in SESSIONS.columns if column.name not in ("number", "first"))
    with psycopg.connect(where, autocommit=True) as connection:
        while True:
            row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            assert row is not None
            if row[0] >= gigabytes * 1e9:
                return f"{row[0] / 1e9:.1f} GB, {sessions * TURNS_OF_A_SESSION:,} turns"
            connection.execute(
                f"INSERT INTO {SESSIONS.name} (number, first, {columns}) "
                f"SELECT number + {sessions}, 's' || number + {sessions}, {columns} FROM {SESSIONS.name}"
            )
            connection.execute(f"INSERT INTO {NEWS.name} SELECT session + {sessions}, version, record FROM {NEWS.name}")
            sessions *= 2


def started(runs: Path, *more: str) -> dict[str, float]:
    """Start a gateway. Returns the seconds and the CPU until it is alive and until it is ready, and its memory."""
    port = free_port()
    command = [sys.executable, "-m", "agentfw", "serve", "--port", str(port), "--runs", str(runs), "--json"]
    began = time.perf_counter()
    process = subprocess.Popen([*command, *OPTIONS, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found: dict[str, float] = {}
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            gateway = psutil.Process(process.pid)
            for name, path in (("alive", "/healthz"), ("ready", "/readyz")):
                while f"{name}, s" not in found:
                    if process.poll() is not None:
                        raise SystemExit("the gateway has ended")
                    try:
                        if client.get(path).status_code == 200:
                            found[f"{name}, s"] = round(time.perf_counter() - began, 2)
                            found[f"CPU until {name}, s"] = round(sum(gateway.cpu_times()[:2]), 2)
                    except httpx.TransportError:
                        pass
                    time.sleep(0.01)
        found["memory, MB"] = round(gateway.memory_info().rss / 1e6)
    finally:
        process.kill()
        process.wait()
    return found


def start(turns: int, folder: Path, gigabytes: float) -> list[dict[str, Any]]:
    """A row for each place of the history."""
    sessions = max(1, turns // TURNS_OF_A_SESSION)
    rows = [{"history": "empty", **started(folder / "empty")}]
    megabytes = round(fill_folder(folder / "runs", sessions) / 1e6)
    rows.append({"history": f"{megabytes} MB in the folder", **started(folder / "runs")})
    with server() as where:
        size = fill_database(where, sessions, gigabytes)
        rows.append({"history": f"{size} with --sessions", **started(folder / "shared", "--sessions", where)})
    return rows


SAID = ("I live in Oslo.", "I prefer tea to coffee.", "My sister is called Ada.", "I work as a baker.", "What is new?")


FIGURES = """
SELECT (SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal' AND context = 'normal'),
(SELECT sum(xact_commit) FROM pg_stat_database WHERE datname IS NOT NULL), wal_bytes / 1024.0 FROM pg_stat_wal
"""


def figures_of(where: str) -> dict[str, float]:
    import psycopg

    with psycopg.connect(where, autocommit=True) as connection:
        row = connection.execute(FIGURES).fetchone()
    assert row is not None
    return dict(zip(("flushes", "transactions", "KB of log"), map(float, row), strict=True))


def turn(where: str, runs: Path, count: int, *memory: str) -> dict[str, float]:
    """What a turn took, on average."""
    policy = ("--policy", "scripted", "--set", 'policy.replies=["Noted."]')
    before = figures_of(where)
    process, url, _ = serve(runs, "--sessions", where, *policy, *memory)
    gateway = psutil.Process(process.pid)
    with httpx.Client(base_url=url, timeout=60) as client:

        def ask(number: int) -> None:
            name, said = f"{runs.name}-{number // 10}", SAID[number % len(SAID)]
            body = {"model": "scripted", "user": f"u{number // 10}", "messages": [{"role": "user", "content": said}]}
            client.post(f"/s/{name}/v1/chat/completions", json=body).raise_for_status()

        ask(0)
        began = sum(gateway.cpu_times()[:2]), processor_of(where)
        for number in range(count):
            ask(number)
        ours, theirs = sum(gateway.cpu_times()[:2]) - began[0], processor_of(where) - began[1]
    process.send_signal(signal.SIGTERM)
    process.communicate()
    after = figures_of(where)
    found = {name: (after[name] - before[name]) / count for name in after}
    found |= {"CPU of the gateway, ms": 1000 * ours / count, "CPU of PostgreSQL, ms": 1000 * theirs / count}
    return {name: round(figure, 2) for name, figure in found.items()}


def turns(count: int, folder: Path) -> list[dict[str, Any]]:
    with server() as where:
        remembers = ("--memory", "skillgraph", "--set", f"memory.skillgraph.path={where}")
        rows = []
        for name, options in (("no", ("--memory", "none")), ("yes", remembers)):
            turn(where, folder / f"first-{name}", 1, *options)
            rows.append({"memory": name, **turn(where, folder / f"runs-{name}", count, *options)})
        return rows


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, turns=(0, "of the history, or to ask; default: 34,000 and 400"), gigabytes=0.0)
    parser.add_argument("what", choices=("start", "turns"))
    options = parser.parse_args(arguments)
    count = options.turns or {"start": 34_000, "turns": 400}[options.what]
    with tempfile.TemporaryDirectory(prefix="agentfw-gateway-") as folder:
        starts = options.what == "start"
        rows = start(count, Path(folder), options.gigabytes) if starts else turns(count, Path(folder))
    return tell({"turns": count, "rows": rows}, options.json)


if __name__ == "__main__":
    main()
