"""An upstream whose answers never end. It notes when whoever asked is gone.

with endless() as upstream:
    ...     # ask upstream.url; upstream.begun and upstream.gone count its requests
"""

from __future__ import annotations

import json
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

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
                self._send("fine")
                return
            with upstream.lock:
                upstream.begun += 1
            with suppress(OSError):  # whoever asked is gone
                self._stream() if body.get("stream") else self._send_late()
            with upstream.lock:
                upstream.gone += 1
            self.close_connection = True

        def _goes_on(self) -> bool:
            is_gone = select.select([self.connection], [], [], 0)[0]
            return not is_gone and not upstream.stopping.wait(0.02)

        def _send_late(self) -> None:
            while self._goes_on():
                pass
            self._send("late")

        def _stream(self) -> None:
            self._head("text/event-stream", "connection", "close")
            while self._goes_on():
                self._event({"choices": [_choice("delta", "word ")]})
            self._event({"choices": [{**_choice("delta", ""), "finish_reason": "stop"}]})
            self.wfile.write(b"data: [DONE]\n\n")

        def _event(self, data: object) -> None:
            self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())

        def _send(self, text: str) -> None:
            data = json.dumps({"choices": [_choice("message", text)]}).encode()
            self._head("application/json", "content-length", str(len(data)))
            self.wfile.write(data)

        def _head(self, kind: str, *more: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header(*more)
            self.end_headers()

    with listening(Endless) as upstream.url:
        try:
            yield upstream
        finally:
            upstream.stopping.set()


def _choice(key: str, text: str) -> dict[str, object]:
    return {"index": 0, key: {"role": "assistant", "content": text}, "finish_reason": None}
