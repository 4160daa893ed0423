"""A model server on this machine that says what a test tells it to, in the protocol of chat completions.

Answers are given in order, the last one again and again.

    with serve() as model:
        model.answers += [model.call("serve", drink="tea"), "Done."]
        agentfw.run("tea", policy="openai", settings={"policy.base_url": model.url, "policy.model": "fake"})
        model.requests[0]["messages"]
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeModel:
    """What a fake model is asked, and what it answers."""

    def __init__(self, url: str) -> None:
        self.url = url
        """The address that policies and programs take as `base_url`."""
        self.answers: list[str | dict[str, Any]] = []
        """Texts, and messages such as those of `call`. Without any, the model says "fine"."""
        self.requests: list[dict[str, Any]] = []
        """The bodies of the requests, in order."""
        self._lock = threading.Lock()

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """A message that calls a tool."""
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]}

    def completion(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
        answer = self.answers[min(number, len(self.answers) - 1)] if self.answers else "fine"
        said: dict[str, Any] = {"role": "assistant", "content": answer} if isinstance(answer, str) else answer
        calls = [{**call, "id": f"call-{number}-{place}"} for place, call in enumerate(said.get("tool_calls", ()))]
        message = {**said, "tool_calls": calls} if calls else said
        return {
            "id": f"fake-{number}",
            "object": "chat.completion",
            "model": request.get("model", "fake"),
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14},
        }


@contextmanager
def serve() -> Iterator[FakeModel]:
    """A fake model, served until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({"object": "list", "data": [{"id": "fake", "object": "model"}]})

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            self._answer(model.completion(json.loads(self.rfile.read(length))))

        def _answer(self, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model = FakeModel(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
