"""The gateway: an ASGI application that answers chat requests with a policy, and records each session.

What was answered is on disk before the answer leaves; of a stream, before its end does. Requests that fail are answered
with the right status code in the format of the request. Keys are compared and never stored.

    async with serving(Gateway(desk).app, "127.0.0.1", 8765) as url:
        ...
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentfw import Session
from agentfw.errors import (
    AgentfwError,
    BudgetSpentError,
    EndpointError,
    MissingExtraError,
    PluginError,
    RequestRefusedError,
    StorageError,
    UsageError,
)
from agentfw.session import Reply

from .bodies import Asked, BadRequest
from .desk import Desk
from .dialects import DIALECTS
from .dialects.interface import About, Dialect, Pieces
from .feedback import read_feedback

try:
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    from .answers import body_of, json_answer, user_of
    from .page import Page
except ImportError as error:
    raise MissingExtraError("the gateway", "web", module=error.name or "") from None

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["Gateway"]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")

Handler = Callable[[Request], Awaitable[Response]]


class Gateway:
    """The application and its requests in progress."""

    def __init__(
        self,
        desk: Desk,
        *,
        models: Sequence[str] = (),
        keys: Sequence[str] = (),
        max_body: int = 8_000_000,
        page: Page | None = None,
    ) -> None:
        """`models` are the names that are answered to; without any, all are. Without keys, only this machine is."""
        self.desk, self.models, self.keys, self.max_body = desk, tuple(models), tuple(keys), max_body
        self._working = dict[asyncio.Task[Reply], Session]()
        routes = []
        for below in ("", "/s/{session}"):
            routes.append(Route(f"{below}/v1/models", self._guarded(self._list_models), methods=["GET"]))
            routes += [
                Route(f"{below}/v1/{path}", self._guarded(partial(self._answer, dialect), dialect), methods=["POST"])
                for path, dialect in DIALECTS.items()
            ]
        routes.append(Route("/s/{session}/feedback", self._guarded(self._feedback), methods=["POST"]))
        routes.append(Route("/s/{session}/end", self._guarded(self._end), methods=["POST"]))
        if page is not None:
            routes.append(Route("/", self._guarded(page.html, needs_key=False), methods=["GET"]))
            routes += [Route(path, self._guarded(handler), methods=[method]) for method, path, handler in page.handlers]
        self.app: ASGIApp = Starlette(routes=routes)

    async def finish(self, session: Session | None = None) -> None:
        """Wait for the answers in progress, of one session or of all."""
        left = [task for task, whose in self._working.items() if session is None or whose is session]
        await asyncio.gather(*left, return_exceptions=True)

    # -- requests ------------------------------------------------------------------------------------------------------

    def _guarded(self, handler: Handler, dialect: Dialect | None = None, *, needs_key: bool = True) -> Handler:
        speaks = dialect or DIALECTS["chat/completions"]

        async def guarded(request: Request) -> Response:
            try:
                if needs_key or not self.keys:
                    self._admit(request)
                return await handler(request)
            except BadRequest as error:
                problem = error
            except AgentfwError as error:
                problem = _problem(error)
            except ClientDisconnect:
                return Response(status_code=400)
            headers = {"www-authenticate": "Bearer"} if problem.status == 401 else None
            return json_answer(speaks.error(problem), problem.status, headers)

        return guarded

    def _admit(self, request: Request) -> None:
        if self.keys:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            given = given.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
            right = [secrets.compare_digest(given.encode(), key.encode()) for key in self.keys]
            if not any(right):
                raise BadRequest("the key is missing or wrong", 401, code="invalid_api_key")
            return
        # Without a key, a web page must not get at it: neither under another name of this machine, nor from another
        # site.
        origin = request.headers.get("origin")
        if not _is_local(f"//{request.headers.get('host', '')}") or (origin and not _is_local(origin)):
            raise BadRequest("without a key, only programs of this machine are served", 403, code="not_local")

    async def _list_models(self, request: Request) -> Response:
        models = [
            {"id": name, "object": "model", "created": 0, "owned_by": "agentfw"} for name in self.models or ["agentfw"]
        ]
        return json_answer({"object": "list", "data": models})

    async def _feedback(self, request: Request) -> Response:
        body = await body_of(request, self.max_body)
        given = read_feedback(body)
        session = self.desk.known(request.path_params["session"], user_of(request, body))
        session.feedback(given.value, words=given.words, correction=given.correction, turn=given.turn)
        await self.desk.keep(session)
        return json_answer({"session": session.name, "value": given.value, "turn": given.turn})

    async def _end(self, request: Request) -> Response:
        body = await body_of(request, self.max_body, optional=True)
        session = self.desk.known(request.path_params["session"], user_of(request, body))
        reward = await self.desk.end(session)
        return json_answer({"session": session.name, "episode": session.episode.id, "reward": reward})

    async def _answer(self, dialect: Dialect, request: Request) -> Response:
        body = await body_of(request, self.max_body)
        asked = dialect.read(body)
        if self.models and asked.model not in self.models:
            raise BadRequest(
                f'there is no model "{asked.model}"; there is: {", ".join(self.models)}',
                404,
                code="model_not_found",
                field="model",
            )
        user = user_of(request, body) or asked.user
        name = request.path_params.get("session") or request.headers.get("x-agentfw-session", "")
        session = self.desk.find(name, user, asked.messages)
        about = About(f"{session.name}-{secrets.token_hex(4)}", int(time.time()), asked.model)
        headers = {"x-agentfw-session": session.name}
        if asked.stream:
            return await self._streamed(session, user, asked, dialect, about, headers)
        # Shielded, because an answer that the policy has given belongs into the record, whoever still waits for it.
        reply = await asyncio.shield(self._work(session, user, asked))
        headers["x-agentfw-turn"] = str(reply.turn.index)
        return json_answer(dialect.whole(reply, asked, about), headers=headers)

    # -- answers -------------------------------------------------------------------------------------------------------

    def _work(
        self, session: Session, user: str, asked: Asked, tell: Callable[[str], object] | None = None
    ) -> asyncio.Task[Reply]:
        async def work() -> Reply:
            reply = await session.answer(
                asked.messages, asked.actions, asked.sampling, user=user, stop=asked.stop, tell=tell
            )
            await self.desk.keep(session, asked.messages, reply)
            return reply

        task = asyncio.create_task(work())
        self._working[task] = session
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Reply]) -> None:
        del self._working[task]
        if not task.cancelled():
            task.exception()  # whoever asked may be gone, and an exception that nobody looks at is printed

    async def _streamed(
        self, session: Session, user: str, asked: Asked, dialect: Dialect, about: About, headers: dict[str, str]
    ) -> Response:
        told: asyncio.Queue[str | None] = asyncio.Queue()
        work = self._work(session, user, asked, told.put_nowait)
        work.add_done_callback(lambda _: told.put_nowait(None))
        first = await told.get()
        if first is None:
            await asyncio.shield(work)  # a failure before the first word has a status code of its own
        events = self._events(session, work, first, told, asked, dialect, about)
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _events(
        self,
        session: Session,
        work: asyncio.Task[Reply],
        first: str | None,
        told: asyncio.Queue[str | None],
        asked: Asked,
        dialect: Dialect,
        about: About,
    ) -> AsyncIterator[bytes]:
        stream, pieces, piece = dialect.stream(asked, about), Pieces(asked), first
        try:
            for event in stream.start():
                yield event
            while piece is not None:
                if text := pieces.take(piece):
                    for event in stream.text(text):
                        yield event
                piece = await told.get()
            try:
                reply = await asyncio.shield(work)
            except AgentfwError as error:
                yield dialect.failed(_problem(error))
                return
            for event in stream.end(reply, pieces.rest(reply.text)):
                yield event
        except (asyncio.CancelledError, GeneratorExit):
            session.note("session", "hung_up")  # the answer goes on to its end, and is recorded
            raise


def _is_local(address: str) -> bool:
    try:
        return urlsplit(address).hostname in _LOOPBACK
    except ValueError:
        return False


def _problem(error: AgentfwError) -> BadRequest:
    """What a request is answered that failed with this error."""
    words = f"{error.message} ({error.fix})" if error.fix else error.message
    if isinstance(error, StorageError):
        return BadRequest(words, 503, code="not_recorded")
    if isinstance(error, RequestRefusedError):
        return BadRequest(words, 400)
    if isinstance(error, BudgetSpentError):
        return BadRequest(words, 429, code="insufficient_quota")
    if isinstance(error, EndpointError):
        return BadRequest(words, 502, code="policy_unreachable")
    if isinstance(error, PluginError):
        return BadRequest(words, 500, code="policy_failed")
    # A wrong setting, or a prompt that is too long: the same request would fail again.
    return BadRequest(words, 409 if isinstance(error, UsageError) else 400)
