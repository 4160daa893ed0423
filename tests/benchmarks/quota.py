"""A quota that ends in the middle of a run: is an answered request asked again when the run is resumed?

    python tests/benchmarks/quota.py

A server on this machine answers the first 900 of 2,813 requests and then says `insufficient_quota`. It is the shipped
spec `calendar-strategyhub` with 29 users at 10 at a time, and a model that lists its strategies, updates them and
decides in each of 32 conflicts, and lists them once more in the first. The run is resumed with a server that answers
everything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agentfw import Host, HostOptions
from agentfw.errors import QuotaEndedError
from agentfw.runs import RunFolder, apply_assignments, parse_spec, read_spec
from agentfw.runs.run import Run

USERS, ROUNDS, ANSWERED = 29, 32, 900
TURNS = 3  # of a round: list, update, decide
_TAKES = 0.1  # seconds that an answer takes, when it is already paid for; a refusal takes none
LETTERS = ["A", "B", "C", "D", "E"]
USED_UP = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}


class Server:
    """Answers so many requests, and then none."""

    def __init__(self, quota: int) -> None:
        self.quota, self.refused = quota, 0
        self.answered: list[str] = []
        self.address = ""
        self._lock = threading.Lock()

    def take(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            if len(self.answered) >= self.quota:
                self.refused += 1
                return 429, USED_UP
            self.answered.append(json.dumps(body, sort_keys=True))
        choice = {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [answer(body)]}}
        usage = {"prompt_tokens": 1000, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 800}}
        return 200, {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}


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
    return {"id": "c", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


@contextmanager
def serving(quota: int) -> Iterator[Server]:
    server = Server(quota)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            status, reply = server.take(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            if status == 200:
                time.sleep(_TAKES)
            data = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None: ...

    class Listener(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None: ...  # a client that hung up

    listener = Listener(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
    thread.start()
    server.address = f"http://127.0.0.1:{listener.server_port}/v1"
    try:
        yield server
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


def measure(users: int, rounds: int, answered: int, folder: Path) -> dict[str, Any]:
    host = Host.load(HostOptions(disabled=("all",)))
    values = read_spec(Path(host.find_spec("calendar-strategyhub").path))
    with serving(answered) as first:
        changes = {"environment": {"rounds": rounds}, "policy": {"base_url": first.address, "model": "m"}}
        run = Run.create(parse_spec(apply_assignments(values, {**changes, "episodes": users})), host, folder)
        try:
            asyncio.run(run.execute())
            raise SystemExit("the quota was never reached: give more users or rounds")
        except QuotaEndedError:
            done = run.folder.done
    with serving(users * (rounds * TURNS + 1)) as second:
        changes = {"policy": {"base_url": second.address}}
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


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--answered", type=int, default=ANSWERED)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(given.users, given.rounds, given.answered, Path(folder))
    if given.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:34}{value:>12,}")
    return result


if __name__ == "__main__":
    main()
