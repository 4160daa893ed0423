"""What a service manager and a dashboard ask: is the gateway alive, does it take requests, and what has it done?

`/healthz` and `/readyz` tell nothing about anybody, and need no key. `/metrics` is for the operator.
"""

from __future__ import annotations

from agentfw.runs import LiveRun

from ..protocols import BadRequest
from .figures import CONTENT_TYPE, Figures
from .line import Line

try:
    from starlette.requests import Request
    from starlette.responses import Response

    from .answers import json_answer
except ImportError as error:
    from agentfw.errors import MissingExtraError

    raise MissingExtraError("the gateway", "web", module=error.name or "") from None

__all__ = ["Health"]


class Health:
    """The health of a gateway in front of a live run."""

    def __init__(self, live: LiveRun, line: Line) -> None:
        self.live, self.figures, self.is_stopping = live, Figures(), False
        self.figures.show("sessions", "Sessions in progress", lambda: len(live.sessions))
        self.figures.show("answers_in_progress", "Answers that the policy is giving", line.served.total)
        self.figures.show("requests_waiting", "Requests that wait for the policy", lambda: line.length)
        self.figures.show("sayings_waiting", "Messages of users that no memory has heard yet", live.hearing.waiting)
        self.figures.show("ready", "1 if the gateway takes requests", lambda: not self.hindrance)

    @property
    def hindrance(self) -> str:
        """Why no request is taken, if so."""
        if self.is_stopping:
            return "it is being stopped"
        return "" if self.live.failure is None else self.live.failure.message

    async def alive(self, request: Request) -> Response:
        return json_answer({"status": "alive"})

    async def ready(self, request: Request) -> Response:
        if self.hindrance:
            raise BadRequest(f"this gateway takes no requests: {self.hindrance}", 503, code="not_ready")
        return json_answer({"status": "ready"})

    async def metrics(self, request: Request) -> Response:
        if request.state.caller.key is not None:
            raise BadRequest("only the operator's key may read this", 403, code="operators_only")
        return Response(self.figures.text(), media_type=CONTENT_TYPE)
