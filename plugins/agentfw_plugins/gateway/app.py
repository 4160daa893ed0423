"""The gateway: an ASGI application that answers chat requests with a policy, and records each session.

What was answered is on disk before the answer leaves; of a stream, before its end does. Requests that fail are answered
with the right status code in the format of the request. Keys are compared, and only their digests are stored.

    async with serving(Gateway(finder).app, "127.0.0.1", 8765) as url:
        ...
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agentfw import Memory, Session
from agentfw.errors import AgentfwError, MissingExtraError
from agentfw.request import Forwarded

from ..protocols import DIALECTS
from ..protocols.bodies import BadRequest, Body
from ..protocols.chat import read_request
from ..protocols.protocol import About, Dialect
from .callers import Caller, Callers
from .feedback import read_feedback
from .learning.learning import Learning
from .line import Line
from .models import OWN, Model, Models
from .native import recorded_native, refuse_foreign
from .recorded import recorded
from .request_log import logger
from .sessions.session_finder import SessionFinder
from .work import HungUp, Way, Work, Working

try:
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    from .answers import body_of, caller_of, error_answer, json_answer, problem_of_error
    from .endpoints import Endpoints, query_of
    from .health import Health
    from .page import Page
    from .writing import Writing
except ImportError as error:
    raise MissingExtraError("the gateway", "web", module=error.name or "") from None

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["Gateway"]

Handler = Callable[[Request], Awaitable[Response]]


class Gateway:
    """The application and its requests in progress."""

    def __init__(
        self,
        finder: SessionFinder,
        *,
        models: Models | None = None,
        callers: Callers | None = None,
        max_body: int = 8_000_000,
        page: Page | None = None,
        line: Line | None = None,
        health: Health | None = None,
        memories: Sequence[Memory] = (),
        learning: Learning | None = None,
    ) -> None:
        """Without models, sessions answer with the policies that they have. Without callers, only this machine is.

        Without a line, all requests are answered at once. The embedding models of `memories` can be used. With
        `learning`, each answer names the version that gave it.
        """
        self.finder, self.models, self.max_body = finder, models or Models(), max_body
        self.callers, self.health, self.learning = callers or Callers(), health, learning
        count = None if health is None else health.figures.answer
        self._attending = set[asyncio.Task[None]]()
        self.working = Working(finder, line or Line(at_once=sys.maxsize), count)
        endpoints = Endpoints(self.models, self.callers, self.working.line, memories=memories, max_body=max_body)
        routes = []
        for below in ("", "/s/{session}"):
            routes.append(Route(f"{below}/v1/models", self._guarded("models", self._list_models), methods=["GET"]))
            routes.append(
                Route(f"{below}/v1/models/{{name:path}}", self._guarded("models", self._model), methods=["GET"])
            )
            routes += [
                Route(
                    f"{below}/v1/{path}",
                    self._guarded(path, partial(self._answer, dialect), dialect),
                    methods=["POST"],
                )
                for path, dialect in DIALECTS.items()
            ]
            routes += [
                Route(f"{below}/v1/{path}", self._guarded(path, handler, speaks), methods=["POST"])
                for path, handler, speaks in (
                    ("embeddings", endpoints.embeddings, None),
                    ("messages/count_tokens", endpoints.count_tokens, DIALECTS["messages"]),
                )
            ]
        routes.append(Route("/s/{session}/feedback", self._guarded("feedback", self._feedback), methods=["POST"]))
        routes.append(Route("/s/{session}/end", self._guarded("end", self._end), methods=["POST"]))
        if page is not None:
            routes.append(Route("/", self._guarded("page", page.html, needs_key=False), methods=["GET"]))
            routes += [
                Route(path, self._guarded(path, handler), methods=[method]) for method, path, handler in page.handlers
            ]
        if health is not None:
            routes.append(Route("/healthz", health.alive, methods=["GET"]))
            routes.append(Route("/readyz", self._guarded("readyz", health.ready, admits=False), methods=["GET"]))
            routes.append(Route("/metrics", self._guarded("metrics", health.metrics), methods=["GET"]))
        self.app: ASGIApp = Starlette(routes=routes, exception_handlers={404: _no_such_path, 405: _no_such_path})

    # -- requests ------------------------------------------------------------------------------------------------------

    def _guarded(
        self,
        what: str,
        handler: Handler,
        dialect: Dialect | None = None,
        *,
        needs_key: bool = True,
        admits: bool = True,
    ) -> Handler:
        speaks = dialect or DIALECTS["chat/completions"]

        async def handled(request: Request) -> Response:
            try:
                if admits and (needs_key or not self.callers.needs_key):
                    request.state.caller = self.callers.admit(request)
                return await handler(request)
            except BadRequest as error:
                problem = error
            except AgentfwError as error:
                problem = problem_of_error(error)
            except (ClientDisconnect, HungUp):
                return Response(status_code=400)
            return error_answer(problem, speaks, native=_is_native(request))

        async def guarded(request: Request) -> Response:
            began = time.perf_counter()
            answer = await handled(request)
            self._count(request, what, answer.status_code, time.perf_counter() - began)
            return answer

        return guarded

    def _count(self, request: Request, what: str, status: int, seconds: float) -> None:
        if self.health is not None:
            self.health.figures.request(what, status, seconds)
        if logger.isEnabledFor(logging.INFO):
            caller = getattr(request.state, "caller", None)
            figures = {
                "what": what,
                "status": status,
                "seconds": round(seconds, 4),
                "session": request.path_params.get("session", ""),
                "client": caller.client if caller is not None else "",
            }
            logger.info("request", extra={"figures": figures})

    async def _list_models(self, request: Request) -> Response:
        return json_answer({"object": "list", "data": [_told_of_model(name) for name in self.models.names]})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["name"]
        self.models.find(name)
        return json_answer(_told_of_model(name))

    async def _feedback(self, request: Request) -> Response:
        body = await body_of(request, self.max_body)
        given = read_feedback(body)
        caller, name = caller_of(request, body), request.path_params["session"]
        async with self._known(caller, name) as session:
            session.feedback(given.value, words=given.words, correction=given.correction, turn=given.turn)
            await self.finder.keep(session)
        if self.learning is not None:
            self.learning.heard()
        return json_answer({"session": name, "value": given.value, "turn": given.turn})

    async def _end(self, request: Request) -> Response:
        body = await body_of(request, self.max_body, optional=True)
        caller, name = caller_of(request, body), request.path_params["session"]
        async with self._known(caller, name) as session:
            reward = await self.finder.end(session)
        return json_answer({"session": name, "episode": session.episode.id, "reward": reward})

    async def _answer(self, dialect: Dialect, request: Request) -> Response:
        body = await body_of(request, self.max_body)
        way = await self._way(dialect, body, request, self.models.find(body.name("model")))
        asked = way.asked
        caller = caller_of(request, body, asked.user)
        if way.native and caller.key is not None:
            refuse_foreign(body)
        self.callers.count(caller, self.working.line.of(caller.client))
        name = request.path_params.get("session") or request.headers.get("x-agentfw-session", "")
        session = await self.finder.find(caller, name, asked.messages)
        name = session.name.removeprefix(caller.space)
        headers = {"x-agentfw-session": name}
        if self.learning is not None:
            headers["x-agentfw-version"] = self.learning.served.version_of(session.name)
        works: list[Work] = []
        try:
            about = About(f"{name}-{secrets.token_hex(4)}", int(time.time()), asked.model)
            ways = [way._replace(asked=each) for each in asked.each()]
            instead = partial(self._instead, dialect, body, request) if len(ways) == 1 else None
            works += [self.working.begin(session, caller, each, instead) for each in ways]
            request.state.work = works[0]
        finally:
            attending = asyncio.create_task(self._attend(request, session, works))
            self._attending.add(attending)
            attending.add_done_callback(self._attending.discard)
        if asked.stream:
            return await self._streamed(works[0], partial(Writing, dialect, body, about=about), headers)
        replies = [await work.reply() for work in works]
        headers["x-agentfw-turn"] = str(replies[0].turn.index)
        if self.learning is not None:
            headers["x-agentfw-version"] = replies[0].turn.version
        way = works[0].way
        writing = Writing(dialect, body, way.asked, about, native=way.native)
        return writing.whole(replies, {**headers, **self._answered_by(way)})

    async def _way(self, dialect: Dialect, body: Body, request: Request, model: Model) -> Way:
        """How a model is asked. What it can't do is refused."""
        if model.forwards and model.policy is not None:
            if dialect.path.endswith("completions") or await model.policy.speaks(dialect.path, body.name("model")):
                values = self.models.without_own_name(model, dict(body.values))
                told = Forwarded(values, dialect.path, query_of(request), body.raw, {**request.headers})
                plain = dialect.path == "completions"
                return Way(model, replace(recorded_native(dialect, body), plain=plain), told, native=True)
            chat = dialect.chat(body)
            values = self.models.without_own_name(model, dict(chat.values))
            return Way(model, recorded(chat), Forwarded(values, headers={**request.headers}))
        if dialect.path == "completions" and not model.continues:
            raise BadRequest(
                "completions is not supported by this policy: it can't go on with a text",
                code="unsupported_parameter",
            )
        asked = read_request(dialect.chat(body), follows_schemas=model.follows_schemas)
        return Way(model, replace(asked, plain=dialect.path == "completions"))

    async def _instead(self, dialect: Dialect, body: Body, request: Request, model: Model) -> Way | None:
        """How the model is asked that answers if this one is away."""
        other = self.models.instead(model)
        return None if other is None else await self._way(dialect, body, request, other)

    def _answered_by(self, way: Way) -> dict[str, str]:
        """The header that says which of several models answered."""
        return {"x-agentfw-model": way.model.name or OWN} if self.models.others else {}

    async def attended(self) -> None:
        """Wait until the sessions of all requests are released."""
        if self._attending:
            await asyncio.wait(self._attending)

    @asynccontextmanager
    async def _known(self, caller: Caller, name: str) -> AsyncIterator[Session]:
        session = await self.finder.known(caller, name)
        try:
            yield session
        finally:
            await self.finder.release(session)

    async def _attend(self, request: Request, session: Session, works: Sequence[Work]) -> None:
        """Give answers up when their client hangs up, and release their session when all are done."""
        if works:
            watch = asyncio.create_task(_watch(request, works))
            await asyncio.wait([work.task for work in works])
            watch.cancel()
        await self.finder.release(session)

    # -- answers -------------------------------------------------------------------------------------------------------

    async def _streamed(self, work: Work, write: Callable[..., Writing], headers: dict[str, str]) -> Response:
        first = await work.told.get()
        writing = write(asked=work.way.asked, native=work.way.native)
        headers = {**headers, **self._answered_by(work.way)}
        if first is None:
            reply = await work.reply()  # a failure before the first word has a status code of its own
            if reply.passed is not None:
                return writing.whole([reply], headers)  # this server doesn't stream
        events = self._events(work, first, writing)
        headers = {**work.headers, **headers}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _events(self, work: Work, piece: str | bytes | None, writing: Writing) -> AsyncIterator[bytes]:
        while piece is not None:
            events = [*writing.piece(piece)]
            # What has come by now goes out in one write.
            while not work.told.empty() and (piece := work.told.get_nowait()) is not None:
                events += writing.piece(piece)
            if events:
                yield b"".join(events)
            if piece is not None:
                piece = await work.told.get()
        try:
            reply = await work.reply()
        except AgentfwError as error:
            yield writing.dialect.failed(problem_of_error(error))
            return
        except HungUp:
            return
        for event in writing.end(reply):
            yield event


async def _no_such_path(request: Request, error: Exception) -> Response:
    """Clients show the message of an error, and say nothing of one without."""
    asked = f"{request.method} {request.url.path[:200]}"
    problem = BadRequest(f"the gateway has no {asked}", getattr(error, "status_code", 404), code="no_such_path")
    return error_answer(problem, DIALECTS["chat/completions"], native=False)


def _is_native(request: Request) -> bool:
    """Whether a server's refusal has the format of the request."""
    work: Work | None = getattr(request.state, "work", None)
    return getattr(request.state, "native", False) if work is None else work.way.native


def _told_of_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "agentfw"}


async def _watch(request: Request, works: Sequence[Work]) -> None:
    """Give answers up when their client hangs up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    for work in works:
        work.give_up()
