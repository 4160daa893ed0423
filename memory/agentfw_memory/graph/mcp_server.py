"""A skill graph as an MCP server: recall, add, learn and forget for any agent that speaks the protocol.

The one rule: over HTTP it listens on this machine alone, and answers nobody who doesn't bring the token; there is no
setting that changes either. Over stdio whoever started it is whom it serves.

    with SkillGraph.open("skills.db", tenant="team-a") as graph:
        serve_stdio(graph)
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from agentfw_memory.errors import BadInputError, MissingExtraError, SkillGraphError, StorageError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from agentfw_memory.skill_graph import SkillGraph

__all__ = ["HOST", "guarded", "make_server", "serve_http", "serve_stdio"]

HOST = "127.0.0.1"
SHORTEST_TOKEN = 16

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


def make_server(graph: SkillGraph) -> MCPServer:
    """The tools of one tenant's graph."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError:
        raise MissingExtraError("the MCP server", "web", module="mcp") from None
    server = MCPServer(
        "agentfw-memory", instructions="Skills that worked before. Recall before acting; learn afterwards."
    )

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def recall(query: str, user: str, count: int = 5) -> list[dict[str, Any]]:
        """The skills that fit a query and a user, the best first, each with its score and the reasons for it."""
        with _told():
            return [asdict(hit) for hit in graph.recall(query, user=user, k=count)]

    @server.tool()
    def add(
        owner: str, text: str, tools: list[str] | None = None, scenarios: list[str] | None = None, shared: bool = False
    ) -> dict[str, Any]:
        """Add a skill of somebody's, with the tools that it needs and what it is for. Private unless it is shared."""
        with _told():
            return asdict(
                graph.add_skill(
                    owner=owner,
                    text=text,
                    tools=tools or (),
                    scenarios=scenarios or (),
                    visibility="shared" if shared else "private",
                )
            )

    @server.tool()
    def learn(trajectory: dict[str, Any], reward: float) -> dict[str, Any]:
        """Learn from what happened and how good it was; the same id again changes nothing.

        trajectory: id, user, query, and as far as known scenarios, steps (each: action, tool, worked), outcome (in
        words), skills (ids of those that were used)
        """
        with _told():
            return asdict(graph.learn(trajectory, reward))

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    def forget(user: str) -> dict[str, Any]:
        """Take a person out for good: skills, history and all. Only when that person asks for it."""
        with _told():
            return asdict(graph.forget(user))

    return server


def serve_stdio(graph: SkillGraph) -> None:
    """Serve whoever started this process, until they close its stdin."""
    server = make_server(graph)
    graph.prepare()
    server.run()


def serve_http(graph: SkillGraph, *, port: int, token: str) -> None:
    """Serve this machine at http://127.0.0.1:PORT/mcp, until it is interrupted."""
    if len(token) < SHORTEST_TOKEN:
        raise BadInputError(
            f"a token of {len(token)} characters can be guessed", fix=f"take {SHORTEST_TOKEN} or more, at random"
        )
    server = make_server(graph)
    import uvicorn

    graph.prepare()
    application = guarded(server.streamable_http_app(), token)
    try:
        uvicorn.run(application, host=HOST, port=port, log_level="warning")
    except SystemExit as error:
        if error.code:
            raise StorageError(f"port {port} can't be listened on", fix="choose another port") from None


def guarded(application: Any, token: str) -> Application:
    """An ASGI application that answers only requests which bring the token."""
    wanted = f"Bearer {token}".encode()

    async def guard(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            brought = dict(scope.get("headers", ())).get(b"authorization", b"")
            if not secrets.compare_digest(brought, wanted):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b"bring the token: Authorization: Bearer ..."})
                return
        elif scope["type"] != "lifespan":
            return
        await application(scope, receive, send)

    return guard


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong, in words that the caller's model reads."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        yield
    except SkillGraphError as error:
        raise ToolError(f"{error.message}; {error.fix}" if error.fix else error.message) from error
