"""The tools of an MCP server that is started here, or of one at a URL.

A call that may have been carried out is never made twice. A server that is found dead before a call is restarted once
and then called. One that dies during a call gives an observation that says so.

    agentfw run inbox --tool mcp --set tool.mcp.command=uvx --set 'tool.mcp.args=["mcp-server-time"]'
    agentfw run inbox --tool mcp --set tool.mcp.url=http://localhost:8080/mcp --set tool.mcp.token_env=MY_TOKEN

Nothing starts before `open`, and no process is left after `close`. The server's stderr is not shown, but its last lines
are part of the error if the server fails.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentfw import Tool, Toolbox
from agentfw.errors import AgentfwError, InterventionRefused, UnknownNameError, nearest
from agentfw.request import Action

from .mcp_link import Link, Lost, MCPSettings

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as Listed

_OPEN = {"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas", "unevaluatedProperties"}
"""Keywords of JSON schema that may allow more properties than are listed in `properties`."""
_MOST, _LONGEST = 8, 100  # of arguments that a model made up: how many are named, and characters of a name


class MCPToolbox(Toolbox):
    """The tools of one MCP server."""

    def __init__(self, settings: MCPSettings) -> None:
        self.settings = settings
        self._link: Link | None = None
        self._open = False

    async def open(self) -> Sequence[Tool]:
        self._open = True
        wanted = self.settings.only
        try:
            listed = await (await self._living()).ready()
            known = [tool.name for tool in listed]
            for name in wanted:
                if name not in known:
                    raise UnknownNameError(f"tool of {self.settings.server}", name, known)
        except BaseException:
            await self.close()
            raise
        return [_MCPTool(self, tool) for tool in listed if not wanted or tool.name in wanted]

    async def close(self) -> None:
        self._open = False
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool. Every failure is an `InterventionRefused`."""
        from mcp import MCPError

        found_dead = self._link is None or self._link.over
        try:
            try:
                return await self._once(name, arguments)
            except Lost as loss:
                if loss.sent or found_dead:
                    raise
            return await self._once(name, arguments)
        except Lost as loss:
            known = "whether it took effect is not known" if loss.sent else "it was not made"
            raise InterventionRefused(
                f"{name} has no answer: the MCP server went away during the call ({loss}); {known}"
            ) from None
        except MCPError as error:
            raise InterventionRefused(f"{name} was refused: {error.message}") from None
        except AgentfwError as error:
            raise InterventionRefused(f"{name} can't be called: {error.message}") from None

    async def _once(self, name: str, arguments: Mapping[str, Any]) -> str:
        link = await self._living()
        await link.ready()
        return answer_of(name, await link.call(name, arguments), self.settings.longest)

    async def _living(self) -> Link:
        """The connection, or a new one if it is over."""
        old = self._link
        if old is not None and old.over:
            await old.close()
        if not self._open:
            raise AgentfwError(f"the MCP server {self.settings.server} is closed")
        # Another call may have reconnected while the old connection was closing.
        if self._link is None or (self._link is old and old.over):
            self._link = Link(self.settings)
        return self._link


class _MCPTool(Tool):
    """One tool, as described by the server."""

    def __init__(self, box: MCPToolbox, listed: Listed) -> None:
        self._box, self._name = box, listed.name
        self.action = Action(box.settings.prefix + listed.name, listed.description or "", listed.input_schema)
        self.timeout = box.settings.timeout

    async def call(self, arguments: Mapping[str, Any]) -> str:
        # Many servers ignore arguments that they don't know, and the model would never learn that one had no effect.
        if unknown := unknown_arguments(self.action.parameters, arguments):
            raise InterventionRefused(f"{self.action.name} can't be called like this: {'; '.join(unknown)}")
        return await self._box.call(self._name, arguments)


def unknown_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with the names of the arguments. Nothing, where the schema leaves open what there may be."""
    known = schema.get("properties")
    if (
        not isinstance(known, Mapping)
        or schema.get("additionalProperties", False) is not False
        or _OPEN & schema.keys()
    ):
        return []
    found = []
    for name in [name for name in arguments if name not in known][:_MOST]:
        guess = nearest(name[:_LONGEST], known)
        found.append(f"{name[:_LONGEST]}: no such argument" + (f'; did you mean "{guess}"?' if guess else ""))
    return found


def answer_of(name: str, result: CallToolResult, longest: int) -> str:
    """The text of a result, at most `longest` characters of it. An error result is a refusal."""
    text = "\n".join(_shown(block) for block in result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if len(text) > longest:
        text = f"{text[:longest]}\n[{len(text) - longest:,} more characters are left out]"
    if result.is_error:
        raise InterventionRefused(text or f"{name} failed and gave no reason")
    return text


def _shown(block: Any) -> str:
    """A part of a result as text; images and the like are described."""
    if block.type == "text":
        return str(block.text)
    if block.type == "resource_link":
        return f"[{block.name}: {block.uri}]"
    if block.type == "resource":
        inner = block.resource
        if hasattr(inner, "text"):
            return str(inner.text)
        return f"[{inner.mime_type or 'data'}, {_size(inner.blob)}: {inner.uri}]"
    return f"[{block.mime_type}, {_size(block.data)}]"


def _size(base64: str) -> str:
    """The size of base64 content."""
    return f"{len(base64) * 3 // 4:,} bytes"
