"""An MCP server with a prompt, resources, and tools that work, fail, dawdle and die: over its pipes, or HTTP at a port.

Environment: TOKEN is the bearer token that HTTP requests must carry; SESSIONS=1 makes it one of the older servers,
whose clients begin a session; STARTS names a file to which each start adds a line.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, EmbeddedResource, ResourceLink, TextContent, TextResourceContents
from starlette.types import Receive, Scope, Send

server = MCPServer("tools")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def fail() -> str:
    """Fail with a reason."""
    raise ToolError("the drawer is stuck")


@server.tool()
def dawdle(seconds: float) -> str:
    """Take some time."""
    time.sleep(seconds)
    return "at last"


@server.tool()
def die(last_words: str) -> str:
    """Stop the server."""
    print(last_words, file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
def variable(name: str) -> str:
    """The value of an environment variable, and the process's number."""
    return f"{os.environ.get(name)} {os.getpid()}"


@server.tool()
def album() -> CallToolResult:
    """Content of every kind."""
    page = TextResourceContents(uri="note://1", text="inner words")
    return CallToolResult(
        content=[
            TextContent(text="a picture:"),
            Image(data=b"123456", format="png").to_image_content(),
            ResourceLink(name="plan", uri="file:///plan.txt"),
            EmbeddedResource(resource=page),
        ]
    )


@server.tool()
def forecast() -> dict[str, Any]:
    """Structured content."""
    return {"sky": "grey"}


@server.prompt()
def letter(to: str, tone: str = "kind") -> str:
    """How to write a letter."""
    return f"Write a {tone} letter to {to}."


@server.resource("notes://today")
def today() -> str:
    """What is to be done today."""
    return "Call the dentist."


@server.resource("notes://{day}")
def of_day(day: str) -> str:
    """What was done on a day."""
    return f"Nothing on {day}."


def http(port: int) -> None:
    import uvicorn

    inner = server.streamable_http_app()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        token = os.environ.get("TOKEN")
        if scope["type"] == "http" and token and headers.get(b"authorization") != f"Bearer {token}".encode():
            await answer(send, 401)
        elif os.environ.get("SESSIONS") and headers.get(b"mcp-method") == b"server/discover":
            await answer(send, 400)
        else:
            await inner(scope, receive, send)

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


async def answer(send: Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    if starts := os.environ.get("STARTS"):
        with open(starts, "a") as file:
            file.write(f"{os.getpid()}\n")
    if len(sys.argv) > 1:
        http(int(sys.argv[1]))
    else:
        server.run()
