"""An MCP server with tools that read and change a skill graph, for any agent that speaks the protocol.

It serves the process that started it, over stdin and stdout. Any number of them serve one store.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from ...errors import SkillGraphError, needing
from ...skill_graph import SkillGraph
from ..records import Receipt

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


def make_server(graph: SkillGraph) -> MCPServer:
    """Return a server whose tools are methods of one tenant's graph, with their parameters and their help."""
    with needing("the MCP server", "web"):
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import ToolAnnotations
    server = MCPServer(
        "agentfw-memory", instructions="Skills that worked before. Call recall before acting, and learn afterwards."
    )

    def delete(skills: list[str], version: int | None = None) -> Receipt:
        """Delete skills permanently, by their ids, with their history. Only when their user asks for it.

        version: delete only this past version of one skill, by its number in the history
        """
        return graph.delete(*skills, version=version)

    def retire(skill: str) -> dict[str, Any]:
        """End a skill that no longer holds. Its history stays."""
        graph.retire(skill)
        return {"retired": skill}

    def tool(name: str, method: Callable[..., Any], answers: Any = dict[str, Any], **hints: bool) -> None:
        @wraps(method)
        async def called(**given: Any) -> Any:
            try:
                found = await asyncio.to_thread(method, **given)
            except SkillGraphError as error:  # told to the caller's model
                raise ToolError(f"{error.message}; {error.fix}" if error.fix else error.message) from error
            if isinstance(found, list):
                return [asdict(one) for one in found]
            return asdict(found) if is_dataclass(found) and not isinstance(found, type) else found

        about = inspect.signature(method, eval_str=True).replace(return_annotation=answers)
        called.__signature__ = about  # type: ignore[attr-defined]
        server.add_tool(called, name=name, annotations=ToolAnnotations(**hints))

    tool("recall", graph.recall, list[dict[str, Any]], read_only_hint=True)
    tool("list", graph.skills, list[dict[str, Any]], read_only_hint=True)
    tool("history", graph.history, read_only_hint=True)
    tool("add", graph.add)
    tool("update", graph.update)
    tool("retire", retire)
    tool("delete", delete, destructive_hint=True)
    tool("learn", graph.learn)
    tool("hear", graph.hear)
    tool("forget", graph.forget, destructive_hint=True)
    return server


def serve_stdio(graph: SkillGraph) -> None:
    """Serve the process that started this one, until it closes stdin."""
    server = make_server(graph)
    graph.prepare()
    server.run()
