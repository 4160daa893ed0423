"""What a service manager and a dashboard ask: is the gateway alive, does it take requests, and what has it done?

`/healthz` and `/readyz` tell nothing about anybody, and need no key. `/metrics` is for the operator, and no label of a
figure names a user, a key or a session. The log of requests never has what was said, an address's query or a header.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentfw.boundary.gate import needing
from agentfw.runs import LiveRun

from ..protocols import BadRequest
from .usage import SpentFigures, ledger_of

with needing("the gateway", "web"):
    from prometheus_client import CollectorRegistry, Gauge, generate_latest
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
    from starlette.requests import Request
    from starlette.responses import Response

    from .handling import CHAT, Counts, error_answer, json_answer, logger

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from .answering import Line


class Front:
    """What listens: the gateway as soon as it has read its record, and until then only whoever says that it does."""

    app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/healthz":
            answer = json_answer({"status": "alive"})
        elif self.app is not None:
            await self.app(scope, receive, send)
            return
        else:
            words, headers = "this gateway takes no requests yet: it is reading its record", {"retry-after": "1"}
            problem = BadRequest(words, 503, code="not_ready", headers=headers)
            answer = error_answer(problem, CHAT, native=False)
        await answer(scope, receive, send)


class Health:
    def __init__(self, live: LiveRun, line: Line) -> None:
        self.live, self.is_stopping, self._all = live, False, CollectorRegistry()

        def gauge(name: str, words: str, value: Callable[[], float]) -> None:
            Gauge(f"agentfw_{name}", words, registry=self._all).set_function(value)

        gauge("sessions", "Sessions in progress", lambda: len(live.sessions))
        gauge("answers_in_progress", "Answers that the policy is giving", line.served.total)
        gauge("places", "Maximum number of answers at once", lambda: line.at_once)
        gauge("requests_waiting", "Requests that wait for the policy", lambda: line.length)
        gauge("sayings_waiting", "Messages of users that no memory has heard yet", live.hearing.waiting)
        gauge("ready", "1 if the gateway takes requests", lambda: not self.hindrance)
        self._all.register(SpentFigures(ledger_of(live)))
        self.counts = Counts(self._all)

    @property
    def hindrance(self) -> str:
        if self.is_stopping:
            return "it is being stopped"
        return "" if self.live.failure is None else self.live.failure.message

    async def ready(self, request: Request) -> Response:
        if self.hindrance:
            raise BadRequest(f"this gateway takes no requests: {self.hindrance}", 503, code="not_ready")
        return json_answer({"status": "ready"})

    async def metrics(self, request: Request) -> Response:
        if request.state.caller.key is not None:
            raise BadRequest("only the operator's key may read this", 403, code="operators_only")
        return Response(generate_latest(self._all), media_type=CONTENT_TYPE_PLAIN_0_0_4)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": moment, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        line |= getattr(record, "figures", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_as_json() -> None:
    """Log requests, and whatever else is logged, as JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines())
    logging.getLogger().handlers = [handler]
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
