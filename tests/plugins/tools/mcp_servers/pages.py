"""An MCP server that lists its tools two at a time, and describes them in a way of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/odd"}},
    "$defs": {"odd": {"enum": [1, 3]}},
}
TOOLS = [Tool(name=f"tool_{number}", description=f"Tool {number}.", input_schema=SCHEMA) for number in range(5)]


async def listed(context: Any, params: Any) -> ListToolsResult:
    start = int(params.cursor) if params and params.cursor else 0
    following = str(start + 2) if start + 2 < len(TOOLS) else None
    return ListToolsResult(tools=TOOLS[start : start + 2], next_cursor=following)


async def called(context: Any, params: Any) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=params.name)])


async def main() -> None:
    server: Server[Any] = Server("pages", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
