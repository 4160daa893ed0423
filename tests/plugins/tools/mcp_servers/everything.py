"""An MCP server with prompts and resources, and a tool that asks for a sample of the client's model."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Resolve, Sample
from mcp.types import CreateMessageResult, SamplingMessage, TextContent

server = MCPServer("everything")


def asked(text: str) -> Sample:
    question = SamplingMessage(role="user", content=TextContent(text=f"A title for: {text}"))
    return Sample([question], max_tokens=20, system_prompt="Be short.")


@server.tool()
def title(text: str, answer: Annotated[CreateMessageResult, Resolve(asked)]) -> str:
    """A title for a text, by a model."""
    return f"title: {answer.content.text}" if isinstance(answer.content, TextContent) else "no text"


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
