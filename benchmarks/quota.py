"""A quota that ends in the middle of a run: is an answered request asked again when the run is resumed?

    python benchmarks/quota.py

A server on this machine answers the first 900 of 2,813 requests and then says `insufficient_quota`. It is the shipped
spec `calendar-strategyhub` with 29 users at 10 at a time, and a model that lists its strategies, updates them and
decides in each of 32 conflicts, and lists them once more in the first. The run is resumed with a server that answers
everything.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentfw.testing import fresh_host
from agentfw_benchmarks import TESTS, Options, tell

sys.path.insert(0, str(TESTS))
from chat_server import Reply, completion, refusal, serving, tool_call

from agentfw.errors import QuotaEndedError
from agentfw.runs import RunFolder, apply_assignments, parse_spec, read_spec
from agentfw.runs.run import Run

TURNS = 3  # of a round: list, update, decide
_TAKES = 0.1  # seconds that an answer takes, when it is already paid for; a refusal takes none
LETTERS = ["A", "B", "C", "D", "E"]


class Quota:
    """Answers so many requests, and then none."""

    def __init__(self, requests: int) -> None:
        self.left = requests

    def __call__(self, body: dict[str, Any]) -> Reply:
        if not self.left:
            return refusal(429, "You exceeded your current quota.", code="insufficient_quota")
        self.left -= 1
        usage = {"prompt_tokens": 1000, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 800}}
        reply = completion(None, message={"tool_calls": [answer(body)]}, top={"usage": usage})
        return replace(reply, wait=_TAKES)


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """The call of a model that looks at its strategies, changes them and decides."""
    messages = body["messages"]
    last = max(place for place, message in enumerate(messages) if "conflict: " in str(message["content"]))
    told = re.search(r"round (\d+) of", messages[last]["content"])
    assert told is not None
    number, asked = int(told[1]), sum(message["role"] == "assistant" for message in messages[last:])
    calls = [
        ("strategy_hub", {"action": "list"}),
        ("strategy_hub", {"action": "update", "strategies": [f"urgent first, as in conflict {number}"]}),
        ("decide", {"accept": LETTERS[number % 5], "ranking": LETTERS}),
    ]
    if number == 1:
        calls.insert(2, calls[0])
    name, arguments = calls[asked]
    return tool_call(name, **arguments)


def measure(users: int, rounds: int, answered: int, folder: Path) -> dict[str, Any]:
    host = fresh_host(builtins=True, strict=False)
    values = read_spec(Path(host.find_spec("calendar-strategyhub").path))
    with serving(Quota(answered)) as (address, first):
        changes = {"environment": {"rounds": rounds}, "policy": {"base_url": address, "model": "m"}}
        run = Run.create(parse_spec(apply_assignments(values, {**changes, "episodes": users})), host, folder)
        try:
            asyncio.run(run.execute())
            raise SystemExit("the quota was never reached: give more users or rounds")
        except QuotaEndedError:
            done = run.folder.done
    with serving(Quota(users * (rounds * TURNS + 1))) as (address, second):
        changes = {"policy": {"base_url": address}}
        again = Run.open(RunFolder.open(run.folder.path), host, changes)
        summary = asyncio.run(again.execute())
    paid = [*first.answered, *second.answered]
    return {
        "requests of the run": users * (rounds * TURNS + 1),
        "answered before the quota ended": len(first.answered),
        "episodes done by then": done,
        "answered after resuming": len(second.answered),
        "asked again although answered": len(paid) - len(set(paid)),
        "turns in the record": summary.turns,
        "tokens in the record": summary.usage.tokens,
        "tokens that the servers counted": 1020 * len(paid),
    }


def show(result: dict[str, Any]) -> None:
    for name, value in result.items():
        print(f"{name:34}{value:>12,}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    given = Options(__doc__, users=29, rounds=32, answered=900).parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        return tell(measure(given.users, given.rounds, given.answered, Path(folder)), given.json, show)


if __name__ == "__main__":
    main()
