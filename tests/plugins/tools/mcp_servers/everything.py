"""An MCP server with prompts and resources."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("everything")


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


if __name__ == "__main__":
    server.run()
