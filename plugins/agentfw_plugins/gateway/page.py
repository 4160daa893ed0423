"""The page at `/` of the gateway, the requests that it makes, and `agentfw view` beside it.

It is one HTML file that loads nothing else. Its content security policy allows its own script and style sheet alone, by
their hashes, and connections to this gateway alone. What a model, a tool or a person says is shown as text and never
becomes markup. What the memories keep, and what hooks ask before a call, is shown to the user whom it is about, as
everywhere in the gateway, and to whoever runs it.

A browser sends no key. It may look at recorded sessions by a link that works once, or a key in a form, and has a cookie
for a day then. With that it opens pages below `/view` and nothing else, under the names of this gateway alone, so no
page of another site or of another port can use it to ask or change anything.
"""

from __future__ import annotations

import asyncio
import html
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from hashlib import sha256
from importlib.resources import files
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from agentfw.report import web_page
from agentfw.runs import Question

from ..hooks.ledger import GROUPS
from ..protocols import BadRequest, Body
from ..view.app import Viewer
from .handling import LOOPBACK, Caller, Callers, Handler, body_of, bytes_of, caller_of, json_answer
from .sessions.session_finder import LiveSessionFinder
from .usage import ledger_of, told

_VIEW = "/view"
"""Where all runs of the directory are, as `agentfw view` shows them: the sessions too, also while they go on."""
_PRIVATE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_COOKIE = "agentfw_view"
_DAY = 86_400
_LINK = 3600.0  # seconds that the link works
_PAUSE = 0.5  # seconds that a wrong key takes
_HEADERS = {
    **_PRIVATE,
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
}
_FORM = """<!doctype html><meta charset="utf-8"><title>agentfw</title>
<form method="post" action="login"><p>{words}</p>
<p><label>Key of the gateway's operator <input type="password" name="key" autofocus></label> <button>Look</button></p>
</form>
"""


class Page:
    def __init__(self, finder: LiveSessionFinder, logins: Logins) -> None:
        self.finder, self._live, assembly = finder, finder.live, finder.live.assembly
        self._questions, self._ledger = assembly.decisions.questions, ledger_of(finder.live)
        self._questions.listeners.append(lambda question: None)  # they are fetched
        viewer = Viewer(finder.reading.index(), assembly.host, of_gateway=finder.live.folder.id)
        page, policy = web_page(files(__package__).joinpath("page.html").read_text("utf-8"))
        remembers = "yes" if assembly.memories else ""
        about = f'<body data-user="{html.escape(finder.default_user)}" data-remembers="{remembers}">'
        self._html = page.replace("<body>", about, 1).encode()
        policy = f"{policy}; frame-ancestors 'none'"
        self._headers = {**_PRIVATE, "content-security-policy": policy, "referrer-policy": "no-referrer"}
        self.handlers: list[tuple[str, str, Handler]] = [
            ("GET", "/sessions", self._sessions),
            ("GET", "/s/{session}", self._session),
            ("GET", "/tools", self._list_tools),
            ("POST", "/s/{session}/call", self._call),
            ("GET", "/usage", self._usage),
            ("GET", "/questions", self._list_questions),
            ("POST", "/questions/{number:int}", self._answer_question),
            ("GET", "/memory", self._list_memory),
            ("DELETE", "/memory", self._forget),
            ("PATCH", "/memory/{item:path}", self._correct),
            ("DELETE", "/memory/{item:path}", self._forget_one),
        ]
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
        tools = [{"type": "function", "function": asdict(tool.action)} for tool in self._live.assembly.tools]
        return json_answer({"tools": tools, "asks": self._live.assembly.decisions.before_call is not None})

    async def _list_questions(self, request: Request) -> Response:
        seen = self._open(caller_of(request, Body({}))).values()
        told = [{"number": one.number, "text": one.text, "user": one.user} for one in seen]
        return json_answer({"questions": told}, headers=_PRIVATE)

    async def _answer_question(self, request: Request) -> Response:
        body = await body_of(request)
        allow = body.values.get("allow")
        if not isinstance(allow, bool):
            raise body.wrong("allow", "must be true or false")
        number = request.path_params["number"]
        if not (number in self._open(caller_of(request, body)) and self._questions.answer(number, allow=allow)):
            raise BadRequest(f"question {number} isn't open", 404, code="no_such_question")
        return json_answer({"number": number, "allow": allow})

    def _open(self, caller: Caller) -> dict[int, Question]:
        """The open questions in sessions of the caller."""
        asked = self._questions.open.items()
        return {n: one for n, one in asked if one.session.startswith(caller.space) and caller.may_see(one.user)}

    async def _call(self, request: Request) -> Response:
        """Call a tool of the run, unless a hook decides otherwise. A program calls its own tools; the page has none."""
        body = await body_of(request)
        caller, name = caller_of(request, body), request.path_params["session"]
        call = body.call(body.name("id"))
        tool = next((one for one in self._live.assembly.tools if one.action.name == call.name), None)
        if tool is None:
            raise BadRequest(f"there is no tool {call.name}", 404, code="no_such_tool", field="name")
        async with self.finder.leading(caller, name) as session:
            decided = await self._live.assembly.decisions.before_tool(session.episode, call, session.note)
            succeeded, text = decided or await tool.answer(call.arguments)
            if not session.over:
                if not succeeded:
                    session.note("refused", call.name, {"id": call.id, "text": text})
                await self.finder.keep(session)
        return json_answer({"succeeded": succeeded, "text": text})

    async def _usage(self, request: Request) -> Response:
        caller = caller_of(request, Body({}))
        by, since = request.query_params.get("by", "model"), request.query_params.get("since", "")
        if by not in GROUPS:
            raise BadRequest(f"by must be one of {', '.join(GROUPS)}", field="by")
        try:
            since = datetime.strptime(since, "%Y-%m-%d").date().isoformat() if since else ""
        except ValueError:
            raise BadRequest("since must be a day, such as 2026-11-01", field="since") from None
        key = caller.key.name if caller.key is not None else None
        rows = self._ledger.report(by, since=since, user=caller.user or None, key=key)
        return json_answer(told(by, since, rows), headers={"cache-control": "no-store"})

    # -- memories ------------------------------------------------------------------------------------------------------

    async def _list_memory(self, request: Request) -> Response:
        user = self._user_of(request, Body({}))
        items = [asdict(one) for one in await self._live.remembered(user)]
        told = {"user": user, "items": items, "waiting": self._live.hearing.waiting(user)}
        return json_answer(told, headers={"cache-control": "no-store"})

    async def _correct(self, request: Request) -> Response:
        body = await body_of(request)
        text = body.text("text")
        if not text.strip():
            raise body.wrong("text", "must not be empty")
        user = self._user_of(request, body)
        async with self.finder.telling(user):
            corrected = await self._live.correct(user, request.path_params["item"], text)
        return json_answer({"user": user, "item": asdict(corrected)}, headers={"cache-control": "no-store"})

    async def _forget_one(self, request: Request) -> Response:
        user, item = self._user_of(request, Body({})), request.path_params["item"]
        async with self.finder.telling(user):
            await self._live.forget_one(user, item)
        return json_answer({"user": user, "deleted": item})

    async def _forget(self, request: Request) -> Response:
        user = self._user_of(request, Body({}))
        return json_answer({"user": user, "deleted": await self.finder.forget(user)})

    def _user_of(self, request: Request, body: Body) -> str:
        caller = self.finder.asking(caller_of(request, body), "")
        if not caller.user:
            raise BadRequest("the request names no user, and each has a memory of their own", field="user")
        return caller.user


class Logins:
    def __init__(self, callers: Callers, hosts: Sequence[str] = (), once: str = "") -> None:
        """`hosts` are the names of this gateway besides those of this machine. `once` opens it once."""
        self._callers, self._hosts = callers, {*LOOPBACK, *hosts}
        self._once, self._until = once, time.monotonic() + _LINK
        self._known: dict[bytes, float] = {}  # until when each cookie holds, by its digest

    def for_operator(self, handler: Handler) -> Handler:
        """These pages show the sessions of everybody, so a key of one user isn't enough."""

        async def handled(request: Request) -> Response:
            token = request.cookies.get(_COOKIE, "")
            if token and time.monotonic() < self._known.get(_digest(token), 0.0):
                self._check_host(request)
                return await handler(request)
            try:
                caller = self._callers.admit(request, "")
            except BadRequest as problem:
                if problem.status == 401 and "text/html" in request.headers.get("accept", ""):
                    return RedirectResponse("/login", 303, _HEADERS)
                raise
            if caller.key is not None:
                raise BadRequest("only whoever runs the gateway can read all sessions", 403, code="another_user")
            return await handler(request)

        return handled

    async def form(self, request: Request) -> Response:
        self._check_host(request)
        given = request.query_params.get("once", "")
        is_right = secrets.compare_digest(given.encode("utf-8", "replace"), self._once.encode())
        if given and self._once and time.monotonic() < self._until and is_right:
            self._once = ""
            return self._entered()
        words = "This link has been used, or is too old." if given else "Look at the recorded sessions."
        return _login(words, 403 if given else 200)

    async def login(self, request: Request) -> Response:
        self._check_host(request)
        origin = request.headers.get("origin")
        if origin and origin.rpartition("://")[2] != request.headers.get("host"):
            raise BadRequest("a page of another site can't log in here", 403, code="not_local")
        given = parse_qs((await bytes_of(request, 10_000)).decode("utf-8", "replace")).get("key", [""])[0]
        if not self._callers.is_operator(given.strip()):
            await asyncio.sleep(_PAUSE)
            return _login("The key is wrong, or a user's.", 403)
        return self._entered()

    def _entered(self) -> Response:
        now, token = time.monotonic(), secrets.token_urlsafe(32)
        self._known = {digest: until for digest, until in self._known.items() if until > now}
        self._known[_digest(token)] = now + _DAY
        answer = RedirectResponse("/view/", 303, _HEADERS)
        answer.set_cookie(_COOKIE, token, max_age=_DAY, path="/view", httponly=True, samesite="strict")
        return answer

    def _check_host(self, request: Request) -> None:
        name = request.url.hostname or ""
        if name not in self._hosts:
            raise BadRequest(f"this gateway isn't known as {name[:100]}: see --allow-host", 403, code="not_local")


def _login(words: str, status: int) -> Response:
    return Response(_FORM.format(words=html.escape(words)), status, _HEADERS, "text/html; charset=utf-8")


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "replace")).digest()
