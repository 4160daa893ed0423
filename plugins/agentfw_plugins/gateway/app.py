"""The gateway: an ASGI application that answers chat requests with a policy, and records each session.

What was answered is on disk before the answer leaves; of a stream, before its end does. Requests that fail are answered
with the right status code in the format of the request. Keys are compared, and only their digests are stored.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agentfw import Session
from agentfw.errors import AgentfwError, MissingExtraError, in_words, nearest

from ..protocols import About, BadRequest, Body, ChatRequest, Protocol, protocols
from ..protocols.chat import ChatCompletions, read_chat, recorded
from ..rewards.measured import METRIC_NAME
from ..view.index_rows import PART_OF
from .answering import OWN, AnswerInProgress, AnswersInProgress, HungUp, Line, Model, ModelRoute, Models
from .handling import Caller, Callers, caller_of
from .learning.learning import Learning
from .learning.ratings import why_ignored
from .profiles import Sent, told_by
from .sessions.session_finder import SESSION_NAME, SessionFinder
from .variants import NOTE, Variant, VariantFile

try:
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    from .endpoints import Endpoints
    from .handling import Writing, body_of, error_answer, json_answer, problem_of_error, until_gone
    from .health import Health, logger
    from .page import Handler, Page
    from .spans import Spans
except ImportError as error:
    raise MissingExtraError("the gateway", "web", module=error.name or "") from None

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_CHAT = ChatCompletions()
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_SUB_AGENT, _PARENT = "x-claude-code-agent-id", "x-parent-session-id"
"""Headers of Claude Code, which has the session of the agent that it works for, and of opencode, which has its own."""
_WORDS = {
    **dict.fromkeys(("good", "yes", "like", "up", "right", "+1", "👍"), 1.0),
    **dict.fromkeys(("bad", "no", "dislike", "down", "wrong", "-1", "👎"), -1.0),
}
"""Words of feedback for good (1) and bad (-1)."""


class Gateway:
    def __init__(
        self,
        finder: SessionFinder,
        *,
        models: Models | None = None,
        callers: Callers | None = None,
        page: Page | None = None,
        line: Line | None = None,
        health: Health | None = None,
        learning: Learning | None = None,
        variants: VariantFile | None = None,
        spans: Spans | None = None,
    ) -> None:
        """Without models, sessions answer with the policies that they have. Without callers, only this machine is.

        Without a line, all requests are answered at once. With `learning`, each answer names the version that gave it.
        `variants` say what differs for a share of the users. With `spans`, agents can send theirs here.
        """
        self.variants, self._noted = variants, dict[str, tuple[float, str]]()
        self.finder, self.models = finder, models or Models()
        self.callers, self.health, self.learning = callers or Callers(), health, learning
        count = None if health is None else health.count_answer
        self._attending = set[asyncio.Task[None]]()
        self.answers = AnswersInProgress(finder, line or Line(at_once=sys.maxsize), count)
        endpoints = Endpoints(self.models, self.callers, self.answers.line)
        routes: list[Route] = []

        def serve(what: str, paths: Sequence[str], handler: Handler, *methods: str, **guards: Any) -> None:
            guarded = self._guarded(what, handler, **guards)
            routes.extend(Route(path, guarded, methods=methods or ["POST"]) for path in paths)

        for protocol in protocols().values():  # first, because routes are tried in turn
            answer = self._answer if protocol.converses else endpoints.embeddings
            handlers: dict[str, Callable[[Protocol, Request], Awaitable[Response]]] = {
                protocol.path: answer,
                protocol.stream_path: partial(self._answer, streams=True),
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

    # -- requests ------------------------------------------------------------------------------------------------------

    def _guarded(
        self,
        what: str,
        handler: Handler,
        protocol: Protocol | None = None,
        *,
        needs_key: bool = True,
        admits: bool = True,
    ) -> Handler:
        speaks = protocol or _CHAT

        async def handled(request: Request) -> Response:
            request.state.needs_key = self.callers.needs_key
            try:
                if admits and (needs_key or not self.callers.needs_key):
                    request.state.caller = self.callers.admit(request, speaks.key_header)
                return await handler(request)
            except BadRequest as error:
                problem = error
            except AgentfwError as error:
                problem = problem_of_error(error)
            except (ClientDisconnect, HungUp):
                return Response(status_code=400)
            except Exception as error:
                if not speaks.title:
                    raise
                # It may be unable to word errors, too.
                problem = BadRequest(f"{speaks.title} failed: {in_words(error)}", 500, code="protocol_failed")
                logging.getLogger(__name__).warning("%s", problem.message, exc_info=True)
                return error_answer(problem, _CHAT, native=False)
            # A server's refusal may be in the protocol of the request already.
            answer: AnswerInProgress | None = getattr(request.state, "answer", None)
            native = answer.route.spoken is speaks if answer else getattr(request.state, "native", False)
            return error_answer(problem, speaks, native=native)

        async def guarded(request: Request) -> Response:
            began = time.perf_counter()
            answer = await handled(request)
            status, seconds = answer.status_code, time.perf_counter() - began
            if self.health is not None:
                self.health.count_request(what, status, seconds)
            if logger.isEnabledFor(logging.INFO):
                client = getattr(getattr(request.state, "caller", None), "client", "")
                figures = {"what": what, "status": status, "seconds": round(seconds, 4)}
                figures |= {"session": request.path_params.get("session", ""), "client": client}
                logger.info("request", extra={"figures": figures})
            return answer

        return guarded

    async def _feedback(self, request: Request) -> Response:
        body = await body_of(request)
        caller = caller_of(request, body)
        name = request.path_params.get("session") or body.name("session")
        metric, turn = body.name("metric", ""), body.whole("turn", -1)
        if metric and not METRIC_NAME.fullmatch(metric):
            raise body.wrong("metric", "must have 1 to 100 letters, digits, dots, dashes and underscores")
        correction = body.either("correction", "demonstration")
        value, words = _feedback_value(body, metric, correction), body.either("words", "comment")
        async with self._known(caller, name) as session:
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
        async with self._known(caller, name) as session:
            reward = await self.finder.end(session)
        return json_answer({"session": name, "episode": session.episode.id, "reward": reward})

    async def _answer(self, protocol: Protocol, request: Request, *, streams: bool = False) -> Response:
        given = await body_of(request)
        body = protocol.addressed(given, {**request.query_params, **request.path_params}, streams=streams)
        route = await self._route(protocol, given, body, request, self.models.find(body.name("model"), protocol.name))
        asked = route.asked
        told = told_by(Sent(request.headers, given.values, asked))
        if self.health is not None:
            self.health.count_masked(told.masked)
        # A field that programs are known to put a session's id into is no user.
        caller = caller_of(request, body, "" if told.program else asked.user)
        if route.spoken is protocol and caller.key is not None:
            protocol.refuse_foreign(body)
        await self.callers.count(caller)
        name = request.path_params.get("session") or request.headers.get("x-agentfw-session", "") or told.session
        if not request.state.needs_key:
            caller = self.finder.asking(caller, name)
        if not caller.user:  # whoever has this device
            caller = caller.named("", told.user)
        comparison, variant = None if self.variants is None else self.variants.read(), Variant()
        if comparison is not None and not asked.plain:
            said = next((one.content for one in asked.messages if one.role == "user"), "")
            variant = comparison.of(caller.user or f"session {name or said}", caller.space)
            if variant.model:
                body = Body({**body.values, "model": variant.model})
                model = self.models.find(variant.model, protocol.name)
                route = await self._route(protocol, given, body, request, model)
            route = route.varied(variant)
            asked = route.asked
        name, parent = _part_of(request, name)
        try:
            session = await self.finder.find(caller, name, asked.messages)
        except BadRequest as error:
            if name != told.session or error.status not in (403, 410):
                raise
            # The program can't choose another name for a session that is over, or another user's.
            session = await self.finder.find(caller, "", asked.messages)
        name = session.name.removeprefix(caller.space)
        headers = {"x-agentfw-session": name}
        if parent and not session.episode.turns:
            session.note("session", PART_OF, {"session": parent})
        if comparison is not None:
            headers["x-agentfw-variant"], noted = variant.name, (comparison.began, variant.name)
            if self._noted.get(session.name) != noted:
                self._noted[session.name] = noted
                session.note("session", NOTE, {"began": comparison.began, "variant": variant.name})
            if self.learning is not None:
                self.learning.served.pin(session.name, variant.version)
        if self.learning is not None:
            headers["x-agentfw-version"] = self.learning.served.version_of(session.name, session.episode.task.user)
        answers: list[AnswerInProgress] = []
        try:
            about = About(f"{name}-{secrets.token_hex(4)}", int(time.time()), asked.model)
            write = partial(Writing, protocol, body, about)
            routes = [route._replace(asked=each) for each in asked.each()]
            instead = partial(self._instead, protocol, given, body, request, variant) if len(routes) == 1 else None
            answers += [AnswerInProgress(self.answers, session, caller, each, instead, told) for each in routes]
            request.state.answer = answers[0]
        finally:
            attending = asyncio.create_task(self._attend(request, session, answers))
            self._attending.add(attending)
            attending.add_done_callback(self._attending.discard)
        if asked.stream:
            return await self._streamed(answers[0], write, headers)
        replies = [await answer.reply() for answer in answers]
        headers["x-agentfw-turn"] = str(replies[0].turn.index)
        if self.learning is not None:
            headers["x-agentfw-version"] = replies[0].turn.version
        route = answers[0].route
        return write(route.asked, route.spoken).whole(replies, {**headers, **self._answered_by(route)})

    async def _route(self, protocol: Protocol, given: Body, body: Body, request: Request, model: Model) -> ModelRoute:
        """How a model is asked. What it can't do is refused."""
        if not model.forwards or model.policy is None:
            if protocol.plain and not (model.policy is not None and model.policy.continues):
                raise _no_text(protocol)
            asked = read_chat(protocol.read_request(body), follows_schemas=model.follows_schemas)
            return ModelRoute(model, replace(asked, plain=protocol.plain))
        # The server is asked in the protocol of the request, or in the first to which it can be translated.
        name = body.name("model")
        others = [one for one in protocols().values() if one.converses and not (one.plain or protocol.plain)]
        for spoken in (protocol, *others):
            if await model.policy.speaks(spoken.name, name):
                break
        else:
            if protocol.plain:
                raise _no_text(protocol)
            raise BadRequest("the model's server speaks no known protocol", 502)
        if spoken is protocol:
            asked = replace(recorded(protocol, body), plain=protocol.plain)
            path = protocol.stream_path if asked.stream and protocol.stream_path else protocol.path
            return ModelRoute(model, asked, self.models.forwarded(model, protocol, path, name, given, request), spoken)
        chat = protocol.read_request(body)
        asked = recorded(_CHAT, chat)
        path = spoken.stream_path if asked.stream and spoken.stream_path else spoken.path
        forwarded = self.models.forwarded(model, spoken, path, name, Body(spoken.write_request(chat)), request)
        query = f"?{path.partition('?')[2]}" if "?" in path else ""
        return ModelRoute(model, asked, replace(forwarded, query=query), spoken)

    async def _instead(
        self, protocol: Protocol, given: Body, body: Body, request: Request, variant: Variant, model: Model
    ) -> ModelRoute | None:
        """How the model is asked that answers if this one is away."""
        if not model.fallback:
            return None
        other = self.models.others.get(model.fallback, self.models.own)
        return (await self._route(protocol, given, body, request, other)).varied(variant)

    def _answered_by(self, route: ModelRoute) -> dict[str, str]:
        """The headers that say which of several models answered, and which version of a training it is."""
        headers = {"x-agentfw-model": route.model.name or OWN} if self.models.others else {}
        if route.model.version and (self.learning is None or route.model.name):
            headers["x-agentfw-version"] = route.model.version
        return headers

    async def attended(self) -> None:
        if self._attending:
            await asyncio.wait(self._attending)

    @asynccontextmanager
    async def _known(self, caller: Caller, name: str) -> AsyncIterator[Session]:
        session = await self.finder.known(caller, name)
        try:
            yield session
        finally:
            await self.finder.release(session)

    async def _attend(self, request: Request, session: Session, answers: Sequence[AnswerInProgress]) -> None:
        """Give answers up when their client hangs up, and release their session when all are done."""

        def hung_up(_: object) -> None:
            for answer in answers:
                answer.give_up()

        if answers:
            watch = asyncio.create_task(until_gone(request))
            watch.add_done_callback(hung_up)
            await asyncio.wait([answer.task for answer in answers])
            watch.cancel()
        await self.finder.release(session)

    # -- answers -------------------------------------------------------------------------------------------------------

    async def _streamed(
        self,
        answer: AnswerInProgress,
        write: Callable[[ChatRequest, Protocol | None], Writing],
        headers: dict[str, str],
    ) -> Response:
        first = await answer.told.get()
        writing = write(answer.route.asked, answer.route.spoken)
        headers = {**headers, **self._answered_by(answer.route)}
        if first is None:
            reply = await answer.reply()  # a failure before the first word has a status code of its own
            if reply.passed is not None:
                return writing.whole([reply], headers)  # this server doesn't stream

        async def events(piece: str | bytes | None) -> AsyncIterator[bytes]:
            while piece is not None:
                written = [*writing.piece(piece)]
                # What has come by now goes out in one write.
                while not answer.told.empty() and (piece := answer.told.get_nowait()) is not None:
                    written += writing.piece(piece)
                if written:
                    yield b"".join(written)
                if piece is not None:
                    piece = await answer.told.get()
            try:
                reply = await answer.reply()
            except AgentfwError as error:
                yield writing.protocol.error_event(problem_of_error(error))
                return
            except HungUp:
                return
            for event in writing.end(reply):
                yield event

        headers = {**answer.headers, **headers}
        return StreamingResponse(events(first), media_type="text/event-stream", headers=headers)


def _everywhere(*paths: str) -> list[str]:
    """These paths of the gateway, and below the address of each session."""
    return [below + path for path in paths for below in ("", "/s/{session}")]


def _part_of(request: Request, name: str) -> tuple[str, str]:
    """The name of a request's session, and that of the session which it is a part of, if a sub-agent asks."""
    agent = request.headers.get(_SUB_AGENT, "")
    if name and agent and SESSION_NAME.fullmatch(f"{name}.{agent}"):
        return f"{name}.{agent}", name
    parent = request.headers.get(_PARENT, "")
    return name, parent if name != parent and SESSION_NAME.fullmatch(parent) else ""


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
    return error_answer(problem, _CHAT, native=False)


def _no_text(protocol: Protocol) -> BadRequest:
    words = f"{protocol.name} is not supported by this policy: it can't go on with a text"
    return BadRequest(words, code="unsupported_parameter")
