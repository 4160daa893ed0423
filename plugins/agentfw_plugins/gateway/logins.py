"""Lets a browser, which sends no key, look at the recorded sessions: by a link that works once, or a key in a form.

The browser then has a cookie for a day. It opens pages below `/view` and nothing else, under the names of this gateway
alone, so no page of another site or of another port can use it to ask or change anything.
"""

from __future__ import annotations

import asyncio
import html
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..protocols import BadRequest
from .handling import LOOPBACK, Callers, bytes_of

_COOKIE = "agentfw_view"
_DAY = 86_400
_LINK = 3600.0  # seconds that the link works
_PAUSE = 0.5  # seconds that a wrong key takes
_HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
}
_FORM = """<!doctype html><meta charset="utf-8"><title>agentfw</title>
<form method="post" action="login"><p>{words}</p>
<p><label>Key of the gateway's operator <input type="password" name="key" autofocus></label> <button>Look</button></p>
</form>
"""

Handler = Callable[[Request], Awaitable[Response]]


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
        return _page(words, 403 if given else 200)

    async def login(self, request: Request) -> Response:
        self._check_host(request)
        origin = request.headers.get("origin")
        if origin and origin.rpartition("://")[2] != request.headers.get("host"):
            raise BadRequest("a page of another site can't log in here", 403, code="not_local")
        given = parse_qs((await bytes_of(request, 10_000)).decode("utf-8", "replace")).get("key", [""])[0]
        if not self._callers.is_operator(given.strip()):
            await asyncio.sleep(_PAUSE)
            return _page("The key is wrong, or a user's.", 403)
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


def _page(words: str, status: int) -> Response:
    return Response(_FORM.format(words=html.escape(words)), status, _HEADERS, "text/html; charset=utf-8")


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "replace")).digest()
