"""The fixtures that tests of plugins use, which pytest finds wherever agentfw is installed.

What they need besides pytest is imported by the test that asks for it, so that it costs other tests nothing.

    def test_notebook(agentfw_host, agentfw_runs, fake_model):
        host = agentfw_host("my_plugin.plugin", builtins=True)     # the plugin need not be installed
        fake_model.answers += ["First note."]
        model = {"policy.base_url": fake_model.url, "policy.model": "fake"}

        result = agentfw.run("inbox", policy="openai", memory="notebook", settings=model, host=host, runs=agentfw_runs)

        assert result.figures["utility"].estimate > 0
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..host import Host


class FakeModel:
    """A model server on this machine: what it is asked, and what it answers, in the protocol of chat completions."""

    def __init__(self, url: str) -> None:
        self.url = url
        """The address that policies and programs take as `base_url`."""
        self.answers: list[str | dict[str, Any]] = []
        """Texts, and messages such as those of `call`. The last is said again and again; without any, "fine"."""
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
def _served() -> Iterator[FakeModel]:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer  # not in every run of pytest

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


@pytest.fixture
def agentfw_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Host]:
    """`agentfw.testing.fresh_host`, in an empty working folder and without the environment variables of agentfw."""
    from .contracts import fresh_host

    for name in [name for name in os.environ if name.startswith("AGENTFW_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return fresh_host


@pytest.fixture
def agentfw_runs(tmp_path: Path) -> Path:
    """An empty directory of runs."""
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def fake_model() -> Iterator[FakeModel]:
    """A model server on this machine that gives the answers of the test: `agentfw.testing.FakeModel`."""
    with _served() as model:
        yield model
