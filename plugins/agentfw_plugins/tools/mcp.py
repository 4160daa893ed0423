"""What an MCP server offers, as tools. The server is started here, or runs at a URL.

Its tools are tools. So is each of its prompts, which returns the prompt's messages, and `read_resource`, which reads
any of its resources. A call that may have been carried out is never made twice. A server that is found dead before a
call is restarted once and then called. One that dies during a call gives an observation that says so.

Nothing starts before `open`, and no process is left after `close`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentfw import Tool, Toolbox
from agentfw.errors import AgentfwError, InterventionRefused, UnknownNameError, nearest
from agentfw.request import Action

from .mcp_link import Link, Lost, MCPSettings, Offered

if TYPE_CHECKING:
    from mcp import Client

READ = "read_resource"  # the tool that reads resources
_LISTED = 50  # maximum number of resources that its description names
_OPEN = {"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas", "unevaluatedProperties"}
"""Keywords of JSON schema that may allow more properties than are listed in `properties`."""
_MOST, _LONGEST = 8, 100  # of arguments that a model made up: how many are named, and characters of a name


class MCPToolbox(Toolbox):
    """The tools, prompts and resources of one MCP server."""

    def __init__(self, settings: MCPSettings) -> None:
        self.settings = settings
        self._link: Link | None = None
        self._open = False

    async def open(self) -> Sequence[Tool]:
        self._open = True
        wanted = self.settings.only
        try:
            tools = self._tools_of(await (await self._living()).ready())
            for name in wanted:
                if name not in tools:
                    raise UnknownNameError(f"tool of {self.settings.server}", name, tools)
        except BaseException:
            await self.close()
            raise
        return [tool for name, tool in tools.items() if not wanted or name in wanted]

    async def close(self) -> None:
        self._open = False
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    def _tools_of(self, offered: Offered) -> dict[str, Tool]:
        """The tools of a server by name. Where a prompt has the name of a tool, it is the tool that is meant."""
        made: dict[str, Tool] = {}
        if offered.resources or offered.templates:
            places = [(one.uri, one.description or one.name) for one in offered.resources]
            places += [(one.uri_template, one.description or one.name) for one in offered.templates]
            lines = [f"- {uri}: {about}" for uri, about in places[:_LISTED]]
            lines += [f"and {len(places) - _LISTED} more"] if len(places) > _LISTED else []
            words = "Read a resource by its address. In an address, replace {NAME} with a value.\n" + "\n".join(lines)
            schema: dict[str, Any] = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
            made[READ] = _MCPTool(self, READ, words, schema, _read)
        for prompt in offered.prompts:
            words = f"{prompt.description or prompt.title or prompt.name} (returns a prompt)"
            given = prompt.arguments or []
            texts = {one.name: {"type": "string", "description": one.description or one.name} for one in given}
            needed = [one.name for one in given if one.required]
            schema = {"type": "object", "properties": texts, "required": needed}
            made[prompt.name] = _MCPTool(self, prompt.name, words, schema, _get)
        for tool in offered.tools:
            made[tool.name] = _MCPTool(self, tool.name, tool.description or "", tool.input_schema, _call)
        return made

    async def call(self, name: str, request: Callable[[Client], Awaitable[str]]) -> str:
        """Make a request for the tool of that name. Every failure is an `InterventionRefused`."""
        from mcp import MCPError

        tries = 1 if self._link is None or self._link.over else 2
        try:
            while True:
                link, tries = await self._living(), tries - 1
                await link.ready()
                try:
                    return await link.ask(request)
                except Lost as loss:
                    if loss.sent or not tries:
                        raise
        except Lost as loss:
            known = "whether it took effect is not known" if loss.sent else "it was not made"
            raise InterventionRefused(
                f"{name} has no answer: the MCP server went away during the call ({loss}); {known}"
            ) from None
        except MCPError as error:
            raise InterventionRefused(f"{name} was refused: {error.message}") from None
        except AgentfwError as error:
            raise InterventionRefused(f"{name} can't be called: {error.message}") from None

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


_Request = Callable[["Client", str, dict[str, Any]], Awaitable[str]]


class _MCPTool(Tool):
    def __init__(self, box: MCPToolbox, name: str, words: str, schema: Mapping[str, Any], request: _Request) -> None:
        self._box, self._name, self._request = box, name, request
        self.action = Action(box.settings.prefix + name, words, dict(schema))
        self.timeout = box.settings.timeout

    async def call(self, arguments: Mapping[str, Any]) -> str:
        # Many servers ignore arguments that they don't know, and the model would never learn that one had no effect.
        if unknown := unknown_arguments(self.action.parameters, arguments):
            raise InterventionRefused(f"{self.action.name} can't be called like this: {'; '.join(unknown)}")
        return await self._box.call(self._name, lambda client: self._request(client, self._name, dict(arguments)))


async def _call(client: Client, name: str, arguments: dict[str, Any]) -> str:
    result = await client.call_tool(name, arguments)
    text = "\n".join(_shown(block) for block in result.content)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if result.is_error:
        raise InterventionRefused(text or f"{name} failed and gave no reason")
    return text


async def _get(client: Client, name: str, arguments: dict[str, Any]) -> str:
    # Numbers become texts, as all arguments of prompts are. Of objects and lists nobody could say which text is meant.
    if wrong := [key for key, value in arguments.items() if isinstance(value, dict | list)]:
        raise InterventionRefused(f"{name} can't be called like this: {wrong[0]} must be a text")
    prompt = await client.get_prompt(name, {key: str(value) for key, value in arguments.items()})
    return "\n\n".join(f"{one.role}: {_shown(one.content)}" for one in prompt.messages)


async def _read(client: Client, name: str, arguments: dict[str, Any]) -> str:
    found = await client.read_resource(str(arguments.get("uri", "")))
    return "\n".join(_resource(one) for one in found.contents)


def unknown_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """What is wrong with the names of the arguments. Nothing, where the schema leaves open what there may be."""
    known = schema.get("properties")
    is_open = schema.get("additionalProperties", False) is not False or _OPEN & schema.keys()
    if is_open or not isinstance(known, Mapping):
        return []
    found = []
    for name in [name for name in arguments if name not in known][:_MOST]:
        guess = nearest(name[:_LONGEST], known)
        found.append(f"{name[:_LONGEST]}: no such argument" + (f'; did you mean "{guess}"?' if guess else ""))
    return found


def _shown(block: Any) -> str:
    """A part of a result as text; images and the like are described."""
    if block.type == "text":
        return str(block.text)
    if block.type == "resource_link":
        return f"[{block.name}: {block.uri}]"
    if block.type == "resource":
        return _resource(block.resource)
    return f"[{block.mime_type}, {_size(block.data)}]"


def _resource(content: Any) -> str:
    if hasattr(content, "text"):
        return str(content.text)
    return f"[{content.mime_type or 'data'}, {_size(content.blob)}: {content.uri}]"


def _size(base64: str) -> str:
    return f"{len(base64) * 3 // 4:,} bytes"
