"""What a turn of a shared session costs: processor of the gateway and of PostgreSQL, commits, and bytes on disk.

    python benchmarks/session_store_cost.py
    python benchmarks/session_store_cost.py --turns 200 --json

Each turn takes its session, commits a question of 60 words and an answer of 150 as a gateway does, and gives the
session back. A conversation has eight turns. Nothing else asks the database.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from agentfw import Episode, Message, Task, Turn
from agentfw_benchmarks import Options, print_aligned, tell
from agentfw_benchmarks.postgres import processor_of, server
from agentfw_plugins.gateway.sessions.session_store import SessionStore

TURNS_OF_A_SESSION = 8
WORDS = ["the", "of", "tea", "please", "tomorrow", "meeting", "window", "paper", "answer", "garden", "invoice"]


def news(task: Task, number: int, generator: random.Random) -> Episode:
    """What one turn adds to a session."""
    question = Message("user", " ".join(generator.choices(WORDS, k=60)))
    said = " ".join(generator.choices(WORDS, k=150))
    turn = Turn(number, float(number), float(number) + 1, shown=(2 * number,), text=said)
    return Episode(task=task, messages=[question, Message("assistant", said)], turns=[turn])


def measure(turns: int) -> dict[str, Any]:
    import psycopg

    generator = random.Random(0)
    with server() as url:
        store = SessionStore(url)
        with psycopg.connect(url, autocommit=True) as connection:

            def size() -> int:
                row = connection.execute(
                    "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relname LIKE 'agentfw_session%'"
                    " AND relkind = 'r'"
                ).fetchone()
                assert row is not None
                return int(row[0])

            before, began, own, theirs = size(), time.perf_counter(), time.process_time(), processor_of(url)
            for place in range(turns):
                name, number = f"s{place // TURNS_OF_A_SESSION}", place % TURNS_OF_A_SESSION
                shared = store.take(name) or store.begin(name, 0, "ada")
                assert shared is not None
                record = news(Task(shared.number, 0, user="ada", query=name), number, generator).to_record()
                store.append(shared.number, shared.version, record, user="ada", first=name)
                store.give_back(shared.number)
            seconds, own, theirs = (
                time.perf_counter() - began,
                time.process_time() - own,
                processor_of(url) - theirs,
            )
            grown = size() - before
        store.close()
    return {
        "turns": turns,
        "processor of the gateway, ms a turn": round(1000 * own / turns, 2),
        "processor of PostgreSQL, ms a turn": round(1000 * theirs / turns, 2),
        "turns a second, one after the other": round(turns / seconds, 1),
        "bytes on disk a turn": round(grown / turns),
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, turns=4000).parse_args(arguments)
    return tell(measure(options.turns), options.json, show)


def show(result: Mapping[str, Any]) -> None:
    print_aligned(["what", ""], [[name, str(figure)] for name, figure in result.items()])


if __name__ == "__main__":
    main()
