"""The gateway: an ASGI application that answers chat requests with a policy, and records each session.

What was answered is on disk before the answer leaves; of a stream, before its end does. Requests that fail are answered
with the right status code in the format of the request. Keys are compared, and only their digests are stored.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentfw.errors import nearest

from ..protocols import BadRequest, Body, Protocol, protocols
from ..rewards.measured import METRIC_NAME
from .answering import Answers
from .endpoints import Endpoints
from .handling import CHAT, Handler, body_of, caller_of, error_answer, guarded, json_answer
from .health import Health
from .learning.ratings import why_ignored
from .page import Page
from .spans import Spans

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_WORDS = {
    **dict.fromkeys(("good", "yes", "like", "up", "right", "+1", "👍"), 1.0),
    **dict.fromkeys(("bad", "no", "dislike", "down", "wrong", "-1", "👎"), -1.0),
}
"""Words of feedback for good (1) and bad (-1)."""


class Gateway:
    def __init__(
        self, answers: Answers, *, page: Page | None = None, health: Health | None = None, spans: Spans | None = None
    ) -> None:
        """With `spans`, agents can send theirs here."""
        self.answers, self.finder, self.learning = answers, answers.finder, answers.learning
        endpoints, routes = Endpoints(answers), list[Route]()

        def serve(what: str, paths: Sequence[str], handler: Handler, *methods: str, **guards: Any) -> None:
            served = guarded(what, handler, answers.callers, answers.counts, **guards)
            routes.extend(Route(path, served, methods=methods or ["POST"]) for path in paths)

        for protocol in protocols().values():  # first, because routes are tried in turn
            handlers: dict[str, Callable[[Protocol, Request], Awaitable[Response]]] = {
                protocol.path: answers.answer if protocol.converses else endpoints.embeddings,
                protocol.stream_path: partial(answers.answer, streams=True),
                protocol.count_path: endpoints.count_tokens,
            }
            for path, handler in handlers.items():
                paths = _everywhere(*protocol.routes(path)) if path else []
                serve(path.partition("?")[0], paths, partial(handler, protocol), protocol=protocol)
        serve("models", _everywhere("/v1/models", "/v1beta/models"), endpoints.models, "GET")
        serve("models", _everywhere("/v1/models/{name:path}"), endpoints.model, "GET")
        serve("feedback", _everywhere("/feedback"), self._feedback)
        serve("end", ["/s/{session}/end"], self._end)
        if spans is not None:
            serve("traces", _everywhere("/v1/traces"), spans.receive)
        serve("others", _everywhere("/v1/{path:path}"), endpoints.others, *_METHODS)
        if page is not None:
            serve("page", ["/"], page.html, "GET", needs_key=False)
            for method, path, handled in page.handlers:
                serve(path, [path], handled, method)
            for method, path, handled in page.views:
                serve(path, [path], handled, method, admits=False)
        if health is not None:
            serve("readyz", ["/readyz"], health.ready, "GET", admits=False)
            serve("metrics", ["/metrics"], health.metrics, "GET")
        self.app: ASGIApp = Starlette(routes=routes, exception_handlers={404: _no_such_path, 405: _no_such_path})

    async def _feedback(self, request: Request) -> Response:
        body = await body_of(request)
        caller = caller_of(request, body)
        name = request.path_params.get("session") or body.name("session")
        metric, turn = body.name("metric", ""), body.whole("turn", -1)
        if metric and not METRIC_NAME.fullmatch(metric):
            raise body.wrong("metric", "must have 1 to 100 letters, digits, dots, dashes and underscores")
        correction = body.either("correction", "demonstration")
        value, words = _feedback_value(body, metric, correction), body.either("words", "comment")
        async with self.finder.leading(caller, name) as session:
            if turn == -1:
                turn = max(0, len(session.episode.turns) - 1)
            session.feedback(value, words=words, correction=correction, turn=turn, metric=metric)
            await self.finder.keep(session)
            about = {"value": value, "turn": turn, **({"metric": metric} if metric else {})}
        told = {"session": name, **about}
        if self.learning is not None:
            why = why_ignored(session.episode, self.learning.served.state.metric, about)
            told |= {"learned_from": not why, **({"why": why} if why else {})}
            if not why:
                self.learning.heard()
        return json_answer(told)

    async def _end(self, request: Request) -> Response:
        body = await body_of(request, optional=True)
        caller, name = caller_of(request, body), request.path_params["session"]
        async with self.finder.leading(caller, name) as session:
            reward = await self.finder.end(session)
        return json_answer({"session": name, "episode": session.episode.id, "reward": reward})


def _everywhere(*paths: str) -> list[str]:
    """These paths of the gateway, and below the address of each session."""
    return [below + path for path in paths for below in ("", "/s/{session}")]


def _feedback_value(body: Body, metric: str, correction: str) -> float:
    """What somebody thinks of an answer, from -1 (bad) to 1 (good). One that is only corrected was bad.

    With a metric, it is true, false or any number.
    """
    given = body.values.get("value")
    if given is None and correction:
        return -1.0
    if isinstance(given, str):
        if (found := _WORDS.get(given.strip().lower())) is None:
            guess = nearest(given.lower(), [*_WORDS])
            meant = f' (did you mean "{guess}"?)' if guess else ""
            raise body.wrong("value", f"must be a number from -1 to 1, or one of {', '.join(_WORDS)}{meant}")
        return found
    if metric:
        if not isinstance(given, bool | int | float) or not math.isfinite(given):
            raise body.wrong("value", "must be true, false or a number")
        return given if isinstance(given, bool) else float(given)
    if isinstance(given, bool):
        return 1.0 if given else -1.0
    if (value := body.number("value", -1, 1)) is None:
        raise body.wrong("value", "is required, unless there is a correction")
    return value


async def _no_such_path(request: Request, error: Exception) -> Response:
    """Clients show the message of an error, and say nothing of one without."""
    asked = f"{request.method} {request.url.path[:200]}"
    problem = BadRequest(f"the gateway has no {asked}", getattr(error, "status_code", 404), code="no_such_path")
    return error_answer(problem, CHAT, native=False)
