"""A chat-completions server on this machine whose answers a test scripts. Everything about it is real but the model.

    with serving(completion("fine")) as (address, server):
        ...                                       # ask `address`
    server.bodies                                 # what it was asked

Answers are given in order, the last one again and again. One may be a function of the request's body.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}


@dataclass
class Reply:
    """One scripted answer of the server."""

    body: object = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait: float = 0.0
    missing: int = 0
    """How many bytes less than promised are sent."""
    pause: float = 0.0
    """Seconds between the lines of a body."""


Script = Reply | Callable[[dict[str, Any]], Reply]


def completion(content: str | None = "fine", **choice: Any) -> Reply:
    """A chat completion as servers give it."""
    message = {"role": "assistant", "content": content, **choice.pop("message", {})}
    top = choice.pop("top", {})
    one = {"index": 0, "message": message, "finish_reason": "stop", **choice}
    whole = {"id": "chat-1", "object": "chat.completion", "model": "served", "choices": [one], "usage": USAGE}
    return Reply(whole | top)


def tool_call(name: str, **arguments: Any) -> dict[str, Any]:
    """What stands in a message for a call."""
    return {"id": f"call-{name}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def chunks(*events: object, done: bool = True, **reply: Any) -> Reply:
    """A streamed answer."""
    lines = [event if isinstance(event, bytes) else b"data: %s\n\n" % json.dumps(event).encode() for event in events]
    headers = {"content-type": "text/event-stream", **reply.pop("headers", {})}
    return Reply(b"".join([*lines, *([b"data: [DONE]\n\n"] if done else [])]), headers=headers, **reply)


def refusal(status: int, message: str, **more: Any) -> Reply:
    return Reply({"error": {"message": message, "type": "error", "param": None, **more}}, status)


class Server:
    """What is asked and answered, in order."""

    def __init__(self, script: tuple[Script, ...], models: tuple[str, ...], owner: str) -> None:
        self.script, self.models, self.owner = script or (completion(),), models, owner
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        """What was asked for below /v1/, with the query."""
        self.raw: list[bytes] = []
        self.answered: list[str] = []
        """The requests that were not refused, as text."""
        self.asked_for_models = self.in_flight = self.most_in_flight = 0
        self.lock = threading.Lock()

    def answer(self, body: dict[str, Any], headers: dict[str, str], path: str, raw: bytes) -> Reply:
        with self.lock:
            self.paths.append(path)
            self.raw.append(raw)
            step = self.script[min(len(self.bodies), len(self.script) - 1)]
            self.bodies.append(body)
            self.headers.append(headers)
            reply = step if isinstance(step, Reply) else step(body)
            if reply.status == 200:
                self.answered.append(json.dumps(body, sort_keys=True))
        return reply


class Handler(BaseHTTPRequestHandler):
    """Keeps connections open, and says nothing on stderr."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Answer requests like this until the block ends. Gives the base URL."""

    class Listener(ThreadingHTTPServer):
        request_queue_size = 512
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that hung up

    listener = Listener(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_address[1]}/v1"
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


@contextmanager
def serving(
    *script: Script, models: tuple[str, ...] = ("served", "other"), apis: tuple[str, ...] = (), owner: str = "us"
) -> Iterator[tuple[str, Server]]:
    """The base URL of a running server, and the server. `apis` are those of responses and messages that it speaks.

    `owner` is who owns the models, as its list of them says.
    """
    server = Server(script, models, owner)

    class Chatting(Handler):
        def do_GET(self) -> None:
            server.asked_for_models += 1
            self._send(
                Reply({"object": "list", "data": [{"id": name, "owned_by": server.owner} for name in server.models]})
            )

        def do_POST(self) -> None:
            with server.lock:
                server.in_flight += 1
                server.most_in_flight = max(server.most_in_flight, server.in_flight)
            raw = self.rfile.read(int(self.headers["content-length"]))
            body, path = json.loads(raw), self.path.removeprefix("/v1/")
            family = path.partition("?")[0].partition("/")[0]
            if family in ("responses", "messages") and (family not in apis or not body):
                reply = refusal(400, "model is required") if family in apis else refusal(404, "no such path")
            else:
                reply = server.answer(body, {name.lower(): value for name, value in self.headers.items()}, path, raw)
            time.sleep(reply.wait)
            with server.lock:
                server.in_flight -= 1
            self._send(reply)

        def _send(self, reply: Reply) -> None:
            data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            try:
                self.send_response(reply.status)
                for name, value in {"content-type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                data = data[: len(data) - reply.missing]
                for line in data.splitlines(keepends=True) if reply.pause else [data]:
                    self.wfile.write(line)
                    time.sleep(reply.pause)
                self.close_connection = self.close_connection or bool(reply.missing)
            except OSError:
                pass  # the client gave up

    with listening(Chatting) as address:
        yield address, server
