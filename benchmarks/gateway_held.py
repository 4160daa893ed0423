"""How much memory a gateway holds for its sessions, and whether it grows beyond that.

    python benchmarks/gateway_held.py
    python benchmarks/gateway_held.py --sessions 500 --json

Sessions of five turns each are played through `agentfw serve` in rounds. One gateway keeps them all, as by default for
an hour; another ends each after a second (`--idle 1`). What the first holds more at the end is what its sessions take;
the second must stop growing.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from agentfw_benchmarks import TESTS, Options, print_aligned, tell

sys.path.insert(0, str(TESTS / "plugins" / "gateway"))

TURNS = 5
TEXT = "The quick brown fox jumps over the lazy dog, and then it goes home. " * 4
KEPT, ENDED = "kept for an hour", "ended after a second"


def held(process: int) -> float:
    """MB of memory that a process has."""
    line = next(line for line in Path(f"/proc/{process}/status").read_text().splitlines() if "VmRSS" in line)
    return int(line.split()[1]) / 1000


def talk(client: httpx.Client, session: str) -> None:
    messages: list[dict[str, str]] = []
    for number in range(TURNS):
        messages.append({"role": "user", "content": f"{session} {number} {TEXT}"})
        answer = client.post(f"/s/{session}/v1/chat/completions", json={"model": "scripted", "messages": messages})
        messages.append(answer.raise_for_status().json()["choices"][0]["message"])


def sessions_of(url: str) -> int:
    figures = dict(line.rsplit(" ", 1) for line in httpx.get(f"{url}/metrics").text.splitlines() if line[0] != "#")
    return int(float(figures["agentfw_sessions"]))


def grown(sessions: int, rounds: int, folder: Path, *idle: str) -> list[dict[str, float]]:
    """What a gateway holds after each round of sessions."""
    from killing import start  # type: ignore[import-not-found]

    process, url, _ = start(folder, "--policy", "scripted", "--set", 'policy.replies=["Noted."]', *idle)
    rows = [{"sessions played": 0, "in progress": 0, "MB": held(process.pid)}]
    try:
        with httpx.Client(base_url=url, timeout=60) as client:
            for one in range(rounds):
                for number in range(sessions):
                    talk(client, f"s{one}-{number}")
                while idle and sessions_of(url):
                    time.sleep(0.2)
                kept = sessions_of(url)
                rows.append({"sessions played": (one + 1) * sessions, "in progress": kept, "MB": held(process.pid)})
    finally:
        process.terminate()
        process.communicate(timeout=60)
    return rows


def measure(sessions: int, rounds: int, folder: Path) -> dict[str, Any]:
    rows = {
        KEPT: grown(sessions, rounds, folder / "kept"),
        ENDED: grown(sessions, rounds, folder / "ended", "--idle", "1"),
    }

    def kilobytes(way: str) -> float:
        first, last = rows[way][1], rows[way][-1]
        return 1000 * (last["MB"] - first["MB"]) / (last["sessions played"] - first["sessions played"])

    return {"rows": rows, "KB a session, after the first round": {way: kilobytes(way) for way in rows}}


def show(found: dict[str, Any]) -> None:
    for way, rows in found["rows"].items():
        print(way)
        print_aligned([*rows[0]], [[f"{value:g}" for value in row.values()] for row in rows])
    for way, kilobytes in found["KB a session, after the first round"].items():
        print(f"{way}: {kilobytes:.1f} KB a session")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, sessions=(300, "sessions a round"), rounds=4).parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options.sessions, options.rounds, Path(folder))
    return tell(found, options.json, show)


if __name__ == "__main__":
    main()
