"""An upstream whose answers never end. It notes when whoever asked is gone.

with endless() as upstream:
    ...     # ask upstream.url; upstream.begun and upstream.gone count its requests
"""

from __future__ import annotations

import json
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from chat_server import Handler, listening


class Upstream:
    """Answers "now" at once, and everything else with words until it is told to stop."""

    def __init__(self) -> None:
        self.url, self.begun, self.gone, self.stopping = "", 0, 0, threading.Event()
        self.lock = threading.Lock()


@contextmanager
def endless() -> Iterator[Upstream]:
    upstream = Upstream()

    class Endless(Handler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if body["messages"][-1]["content"] == "now":
                self._send("application/json", json.dumps({"choices": [_choice("message", "fine")]}).encode())
                return
            with upstream.lock:
                upstream.begun += 1
            if body.get("stream"):
                self._head("text/event-stream")
            while not upstream.stopping.is_set() and not self._is_gone():
                if body.get("stream"):
                    self._event({"choices": [_choice("delta", "word ")]})
                upstream.stopping.wait(0.02)
            with upstream.lock:
                upstream.gone += 1
            self.close_connection = True
            if not body.get("stream"):
                self._send("application/json", json.dumps({"choices": [_choice("message", "late")]}).encode())
            elif not self._is_gone():
                last = {"choices": [{**_choice("delta", ""), "finish_reason": "stop"}]}
                self._event(last)
                self.wfile.write(b"data: [DONE]\n\n")

        def _is_gone(self) -> bool:
            return bool(select.select([self.connection], [], [], 0)[0])

        def _event(self, data: object) -> None:
            try:
                self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
            except OSError:
                pass

        def _head(self, kind: str, length: int | None = None, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header(*("connection", "close") if length is None else ("content-length", str(length)))
            self.end_headers()

        def _send(self, kind: str, data: bytes, status: int = 200) -> None:
            try:
                self._head(kind, len(data), status)
                self.wfile.write(data)
            except OSError:
                pass

    with listening(Endless) as upstream.url:
        try:
            yield upstream
        finally:
            upstream.stopping.set()


def _choice(key: str, text: str) -> dict[str, object]:
    return {"index": 0, key: {"role": "assistant", "content": text}, "finish_reason": None}
