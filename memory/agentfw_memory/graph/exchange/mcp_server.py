"""An MCP server with tools that read and change a skill graph, for any agent that speaks the protocol.

    with SkillGraph.open("skills.db", tenant="team-a") as graph:
        serve_stdio(graph)

Over HTTP the server listens on localhost only, and every request needs the token. No setting changes either. Over
stdio it serves the process that started it.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import wraps
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from agentfw_memory.errors import BadInputError, MissingExtraError, SkillGraphError, StorageError
from agentfw_memory.skill_graph import AsyncSkillGraph, SkillGraph

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

HOST = "127.0.0.1"
MINIMUM_TOKEN_LENGTH = 16

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


def make_server(graph: SkillGraph) -> MCPServer:
    """Return a server with the tools of one tenant's graph."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import ToolAnnotations
    except ImportError:
        raise MissingExtraError("the MCP server", "web", module="mcp") from None
    server = MCPServer(
        "agentfw-memory", instructions="Skills that worked before. Call recall before acting, and learn afterwards."
    )

    def tool(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add a tool, whose errors of the graph are told to the caller's model."""

        def added(function: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(function)
            async def called(*args: Any, **given: Any) -> Any:
                try:
                    answer = function(*args, **given)
                    return await answer if isawaitable(answer) else answer
                except SkillGraphError as error:
                    raise ToolError(f"{error.message}; {error.fix}" if error.fix else error.message) from error

            return server.tool(**options)(called)

        return added

    @tool(annotations=ToolAnnotations(read_only_hint=True))
    def recall(
        query: str,
        user: str,
        count: int = 5,
        where: dict[str, Any] | None = None,
        scenario: str | None = None,
        tools: list[str] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the skills that fit a query and a user, best first, each with its score and the reasons for it.

        where: only skills whose metadata fits, such as {"kind": "note", "year": {"$gte": 2020}}
        scenario, tools: what it is about, and what can be called, if known; skills of these come earlier
        """
        hits = graph.recall(query, user=user, k=count, where=where, scenario=scenario or (), tools=tools or ())
        return [asdict(hit) for hit in hits]

    @tool()
    async def hear(text: str, user: str, conversation: str = "", id: str = "", answer_to: str = "") -> dict[str, Any]:
        """Remember what a user says of themselves, as they said it. Repeating an id changes nothing.

        answer_to: what was said to them just before. What they ask to forget comes back as to_forget, for delete
        """
        return asdict(
            await AsyncSkillGraph(graph).hear(text, user=user, conversation=conversation, id=id, answer_to=answer_to)
        )

    @tool(name="list", annotations=ToolAnnotations(read_only_hint=True))
    def list_(owner: str, scenario: str | None = None, where: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return a user's skills, oldest first: all, or those for a scenario, or whose metadata fits."""
        return [asdict(skill) for skill in graph.skills(owner=owner, scenario=scenario, where=where)]

    @tool(annotations=ToolAnnotations(read_only_hint=True))
    def history(skill: str) -> dict[str, Any]:
        """Return every version of a skill, with what it was connected to, also if it has ended."""
        return asdict(graph.history(skill))

    @tool()
    def update(
        skill: str,
        text: str | None = None,
        tools: list[str] | None = None,
        scenarios: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        expires_at: float | None = None,
    ) -> dict[str, Any]:
        """Start a new version of a skill. What isn't given stays as it is, and the old version stays in the history."""
        changed = graph.update(
            skill, text=text, tools=tools, scenarios=scenarios, metadata=metadata, expires_at=expires_at
        )
        return asdict(changed)

    @tool()
    def retire(skill: str) -> dict[str, Any]:
        """End a skill that no longer holds. Its history stays."""
        graph.retire(skill)
        return {"retired": skill}

    @tool(annotations=ToolAnnotations(destructive_hint=True))
    def delete(skills: list[str], version: int | None = None) -> dict[str, Any]:
        """Delete skills permanently, by their ids, with their history. Only when their user asks for it.

        version: delete only this past version of one skill, by its number in the history
        """
        return asdict(graph.delete(*skills, version=version))

    @tool()
    def add(
        owner: str,
        text: str,
        tools: list[str] | None = None,
        scenarios: list[str] | None = None,
        shared: bool = False,
        metadata: dict[str, Any] | None = None,
        expires_at: float | None = None,
    ) -> dict[str, Any]:
        """Add a skill of a user, with the tools it needs and the scenarios it applies to. Private unless shared.

        metadata: JSON values to filter by. expires_at: when it ends by itself, in seconds since 1970
        """
        return asdict(
            graph.add(
                owner=owner,
                text=text,
                tools=tools or (),
                scenarios=scenarios or (),
                visibility="shared" if shared else "private",
                metadata=metadata,
                expires_at=expires_at,
            )
        )

    @tool()
    def learn(trajectory: dict[str, Any], reward: float) -> dict[str, Any]:
        """Learn from a trajectory and its reward. Repeating an id changes nothing.

        trajectory: id, user, query, and if known scenarios, steps (each with action, tool, worked), outcome (in words)
        and skills (ids of the skills that were used)
        """
        return asdict(graph.learn(trajectory, reward))

    @tool(annotations=ToolAnnotations(destructive_hint=True))
    def forget(user: str) -> dict[str, Any]:
        """Delete all data of a user permanently. Only when that user asks for it."""
        return asdict(graph.forget(user))

    return server


def serve_stdio(graph: SkillGraph) -> None:
    """Serve the process that started this one, until it closes stdin."""
    server = make_server(graph)
    graph.prepare()
    server.run()


def serve_http(graph: SkillGraph, *, port: int, token: str) -> None:
    """Serve localhost at http://127.0.0.1:PORT/mcp, until interrupted."""
    if len(token) < MINIMUM_TOKEN_LENGTH:
        raise BadInputError(
            f"a token of {len(token)} characters can be guessed",
            fix=f"use a random token of at least {MINIMUM_TOKEN_LENGTH} characters",
        )
    server = make_server(graph)
    import uvicorn

    graph.prepare()
    application = guarded(server.streamable_http_app(), token)
    try:
        uvicorn.run(application, host=HOST, port=port, log_level="warning")
    except SystemExit as error:
        if error.code:
            raise StorageError(f"can't listen on port {port}", fix="choose another port") from None


def guarded(application: Any, token: str) -> Application:
    """Wrap an ASGI application so that it rejects requests without the token."""
    wanted = f"Bearer {token}".encode()

    async def guard(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            brought = dict(scope.get("headers", ())).get(b"authorization", b"")
            if not secrets.compare_digest(brought, wanted):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b"send the header Authorization: Bearer TOKEN"})
                return
        elif scope["type"] != "lifespan":
            return
        await application(scope, receive, send)

    return guard
