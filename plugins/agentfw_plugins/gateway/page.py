"""The page at `/` of the gateway, the requests that it makes, and `agentfw view` beside it.

It is one HTML file that loads nothing else. Its content security policy allows its own script and style sheet alone, by
their hashes, and connections to this gateway alone. What a model, a tool or a person says is shown as text and never
becomes markup. What the memories keep, and what hooks ask before a call, is shown to the user whom it is about, as
everywhere in the gateway, and to whoever runs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from html import escape
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from agentfw import Tool
from agentfw.errors import UnknownNameError
from agentfw.report import web_page

from ..protocols import BadRequest, Body
from ..view.app import Viewer
from .handling import body_of, caller_of, json_answer
from .logins import Handler, Logins
from .sessions.session_finder import LiveSessionFinder
from .usage import ledger_of, spent

_VIEW = "/view"
"""Where all runs of the directory are, as `agentfw view` shows them: the sessions too, also while they go on."""
_PRIVATE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Page:
    def __init__(self, finder: LiveSessionFinder, logins: Logins) -> None:
        self.finder = finder
        host = finder.live.assembly.host
        self._questions = finder.live.assembly.decisions.questions
        self._questions.listeners.append(lambda question: None)  # they are fetched
        viewer = Viewer(finder.reading.index(), host, of_gateway=finder.live.folder.id)
        html, policy = web_page(files(__package__).joinpath("page.html").read_text("utf-8"))
        remembers = "yes" if finder.live.assembly.memories else ""
        about = f'<body data-user="{escape(finder.default_user)}" data-remembers="{remembers}">'
        self._html = html.replace("<body>", about, 1).encode()
        self._headers = {
            **_PRIVATE,
            "content-security-policy": f"{policy}; frame-ancestors 'none'",
            "referrer-policy": "no-referrer",
        }
        self.handlers: list[tuple[str, str, Handler]] = [
            ("GET", "/sessions", self._sessions),
            ("GET", "/s/{session}", self._session),
            ("GET", "/tools", self._list_tools),
            ("POST", "/s/{session}/call", self._call),
            ("GET", "/usage", partial(spent, ledger_of(finder.live))),
            ("GET", "/questions", self._list_questions),
            ("POST", "/questions/{number:int}", self._answer_question),
            ("GET", "/memory", self._list_memory),
            ("DELETE", "/memory", self._forget),
            ("PATCH", "/memory/{item:path}", self._correct),
            ("DELETE", "/memory/{item:path}", self._forget_one),
        ]
        """What the page asks for: method, path and handler."""
        self.views: list[tuple[str, str, Handler]] = [
            ("GET", "/login", logins.form),
            ("POST", "/login", logins.login),
            *(("GET", f"{_VIEW}{path}", logins.for_operator(handler)) for path, handler in viewer.handlers.items()),
            *(("POST", f"{_VIEW}{path}", logins.for_operator(handler)) for path, handler in viewer.changes.items()),
        ]
        """What admits whoever asks for it by itself."""

    async def html(self, request: Request) -> Response:
        return Response(self._html, headers=self._headers, media_type="text/html")

    async def _sessions(self, request: Request) -> Response:
        asked = request.query_params.get("before", "")
        if not re.fullmatch(r"\d{0,15}", asked, re.ASCII):
            raise BadRequest("before must be a whole number from 0", field="before")
        before = int(asked) if asked else None
        return json_answer(await self.finder.reading.sessions(caller_of(request, Body({})), before), headers=_PRIVATE)

    async def _session(self, request: Request) -> Response:
        caller, name = caller_of(request, Body({})), request.path_params["session"]
        return json_answer(await self.finder.reading.session(caller, name), headers=_PRIVATE)

    async def _list_tools(self, request: Request) -> Response:
        tools = [{"type": "function", "function": asdict(tool.action)} for tool in self._tools.values()]
        return json_answer({"tools": tools, "asks": self.finder.live.assembly.decisions.before_call is not None})

    async def _list_questions(self, request: Request) -> Response:
        caller = caller_of(request, Body({}))
        seen = [one for one in self._questions.open.values() if caller.may_see(one.user)]
        return json_answer(
            {"questions": [{"number": one.number, "text": one.text, "user": one.user} for one in seen]},
            headers=_PRIVATE,
        )

    async def _answer_question(self, request: Request) -> Response:
        body = await body_of(request)
        allow = body.values.get("allow")
        if not isinstance(allow, bool):
            raise body.wrong("allow", "must be true or false")
        number = request.path_params["number"]
        question = self._questions.open.get(number)
        seen = question is not None and caller_of(request, body).may_see(question.user)
        if not (seen and self._questions.answer(number, allow=allow)):
            raise BadRequest(f"question {number} isn't open", 404, code="no_such_question")
        return json_answer({"number": number, "allow": allow})

    async def _call(self, request: Request) -> Response:
        """Call a tool of the run. A program calls its own tools; the page has none."""
        body = await body_of(request)
        caller, name = caller_of(request, body), request.path_params["session"]
        call = body.call(body.name("id"))
        tool = self._tools.get(call.name)
        if tool is None:
            raise BadRequest(f"there is no tool {call.name}", 404, code="no_such_tool", field="name")
        session = await self.finder.known(caller, name)
        try:
            succeeded, text = await tool.answer(call.arguments)
            if not succeeded and not session.over:
                session.note("refused", call.name, {"id": call.id, "text": text})
                await self.finder.keep(session)
        finally:
            await self.finder.release(session)
        return json_answer({"succeeded": succeeded, "text": text})

    # -- memories ------------------------------------------------------------------------------------------------------

    async def _list_memory(self, request: Request) -> Response:
        user = self._user_of(request, Body({}))
        items = [asdict(one) for one in await self.finder.live.remembered(user)]
        told = {"user": user, "items": items, "waiting": self.finder.live.hearing.waiting(user)}
        return json_answer(told, headers={"cache-control": "no-store"})

    async def _correct(self, request: Request) -> Response:
        body = await body_of(request)
        text = body.text("text")
        if not text.strip():
            raise body.wrong("text", "must not be empty")
        user = self._user_of(request, body)
        with _known():
            corrected = await self.finder.live.correct(user, request.path_params["item"], text)
        return json_answer({"user": user, "item": asdict(corrected)}, headers={"cache-control": "no-store"})

    async def _forget_one(self, request: Request) -> Response:
        user, item = self._user_of(request, Body({})), request.path_params["item"]
        with _known():
            await self.finder.live.forget_one(user, item)
        return json_answer({"user": user, "deleted": item})

    async def _forget(self, request: Request) -> Response:
        user = self._user_of(request, Body({}))
        return json_answer({"user": user, "deleted": await self.finder.live.forget(user)})

    def _user_of(self, request: Request, body: Body) -> str:
        caller = self.finder.asking(caller_of(request, body), "")
        if not caller.user:
            raise BadRequest("the request names no user, and each has a memory of their own", field="user")
        return caller.user

    @property
    def _tools(self) -> dict[str, Tool]:
        return {tool.action.name: tool for tool in self.finder.live.assembly.tools}


@contextmanager
def _known() -> Iterator[None]:
    try:
        yield
    except UnknownNameError as error:
        raise BadRequest(error.message, 404, code="no_such_item") from None
