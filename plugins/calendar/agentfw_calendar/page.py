"""The page of `agentfw calendar serve`: one HTML file that loads nothing else, for this machine only.

Its content security policy allows its own script and style sheet alone, by their hashes, and connections to this server
alone. Requests must name this machine as their host, so that no other site can lead a browser here, and changes must
come from the page itself. Titles that strangers wrote are shown as text and never become markup.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any

from agentfw.errors import AgentfwError, MissingExtraError
from agentfw.report import web_page

from .planner import Planner

__all__ = ["page_app", "serve_page"]

_MOST = 100_000
"""Maximum size of a request in bytes."""


def page_app(planner: Planner) -> Any:
    """The page as an ASGI application."""
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.requests import Request
        from starlette.responses import JSONResponse, Response
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtraError(
            "the page of the calendar", "web", distribution="agentfw-calendar", module=error.name or ""
        ) from None
    html, policy = web_page(files(__package__).joinpath("page.html").read_text("utf-8"))
    headers = {
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "content-security-policy": f"{policy}; frame-ancestors 'none'",
    }
    one_at_a_time = asyncio.Lock()

    async def page(request: Request) -> Response:
        return Response(html, headers=headers, media_type="text/html")

    def answered(act: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            given: Any = {}
            if request.method == "POST":
                body = await request.body() if int(request.headers.get("content-length", _MOST)) < _MOST else b""
                # A form of another site can't send this type of content.
                if request.headers.get("content-type") != "application/json":
                    return JSONResponse({"error": "this isn't from the page", "fix": "reload it"}, 403)
                try:
                    given = json.loads(body)
                except ValueError:
                    given = None
            if not isinstance(given, dict):
                return JSONResponse({"error": "this is no request of the page", "fix": "reload it"}, 400)
            try:
                async with one_at_a_time:
                    return JSONResponse(await act(given), headers={"cache-control": "no-store"})
            except AgentfwError as error:
                return JSONResponse({"error": error.message, "fix": error.fix}, 409)

        return answer

    return Starlette(
        routes=[
            Route("/", page),
            Route("/week", answered(lambda given: planner.week())),
            Route("/decide", answered(planner.decide), methods=["POST"]),
            Route("/undo", answered(planner.undo), methods=["POST"]),
            Route("/write", answered(lambda given: planner.write()), methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
    )


async def serve_page(planner: Planner, port: int, told: Callable[[str], None]) -> None:
    """Serve until this is cancelled."""
    from agentfw_plugins.serving import serving

    async with serving(page_app(planner), "127.0.0.1", port) as address:
        told(address)
        await asyncio.Event().wait()
