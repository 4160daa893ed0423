"""What the memories keep of the user who asks: to read, to correct, and to delete.

A request is of one user, as everywhere in the gateway: the one of its key, or whom it names. Nobody is shown or changes
what is kept of another.

    GET /memory    PATCH /memory/ITEM {"text": "..."}    DELETE /memory/ITEM    DELETE /memory
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import Response

from agentfw.errors import UnknownNameError
from agentfw.runs import LiveRun

from ..protocols import BadRequest, Body
from .answers import body_of, caller_of, json_answer

__all__ = ["MemoryRequests"]

_PRIVATE = {"cache-control": "no-store"}


class MemoryRequests:
    """The requests about the memories of a live run."""

    def __init__(self, live: LiveRun, max_body: int) -> None:
        self.live, self.max_body = live, max_body
        self.handlers: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
            ("GET", "/memory", self._list),
            ("DELETE", "/memory", self._forget),
            ("PATCH", "/memory/{item:path}", self._correct),
            ("DELETE", "/memory/{item:path}", self._forget_one),
        ]
        """Method, path and handler of each."""

    async def _list(self, request: Request) -> Response:
        user = _user_of(request, Body({}))
        items = [asdict(one) for one in await self.live.remembered(user)]
        told = {"user": user, "items": items, "waiting": self.live.hearing.waiting(user)}
        return json_answer(told, headers=_PRIVATE)

    async def _correct(self, request: Request) -> Response:
        body = await body_of(request, self.max_body)
        text = body.text("text")
        if not text.strip():
            raise body.wrong("text", "must not be empty")
        user = _user_of(request, body)
        with _known():
            corrected = await self.live.correct(user, request.path_params["item"], text)
        return json_answer({"user": user, "item": asdict(corrected)}, headers=_PRIVATE)

    async def _forget_one(self, request: Request) -> Response:
        user, item = _user_of(request, Body({})), request.path_params["item"]
        with _known():
            await self.live.forget_one(user, item)
        return json_answer({"user": user, "deleted": item})

    async def _forget(self, request: Request) -> Response:
        user = _user_of(request, Body({}))
        return json_answer({"user": user, "deleted": await self.live.forget(user)})


@contextmanager
def _known() -> Iterator[None]:
    try:
        yield
    except UnknownNameError as error:
        raise BadRequest(error.message, 404, code="no_such_item") from None


def _user_of(request: Request, body: Body) -> str:
    caller = caller_of(request, body)
    if not caller.user:
        raise BadRequest("the request names no user, and each has a memory of their own", field="user")
    return caller.user
