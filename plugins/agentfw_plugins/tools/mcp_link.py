"""One connection to an MCP server, in its own task, and the settings that say how it is started or reached.

The task that opens a connection must also close it: the cancel scopes of the mcp package require it. Callers, however,
may be any task and may be cancelled.

    link = Link(settings)          # starts at once
    offered = await link.ready()   # or an AgentfwError with the reason
    result = await link.ask(lambda client: client.call_tool("now", {"zone": "UTC"}))
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import shlex
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TextIO, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from agentfw import Settings
from agentfw.errors import AgentfwError, MissingExtraError
from agentfw.settings import OPERATIONAL

if TYPE_CHECKING:
    import httpx2
    from anyio import CancelScope
    from mcp import Client
    from mcp.client import Transport
    from mcp.client._transport import TransportStreams
    from mcp.types import Prompt, Resource, ResourceTemplate, Tool

Answer = TypeVar("Answer")


class MCPSettings(Settings):
    command: str = Field("", description="Program to start as the server.")
    args: tuple[str, ...] = Field((), description="Arguments of the program.")
    env: dict[str, str] = Field(
        default_factory=dict, description="Environment variables of the program, besides PATH, HOME and the like."
    )
    pass_env: tuple[str, ...] = Field(
        (), description="Names of environment variables to pass on, for secrets: `env` is saved in the run's folder."
    )
    url: str = Field("", description="URL of a running server with streamable HTTP.")
    token_env: str = Field("", description="Environment variable with the bearer token for the URL.")
    timeout: Annotated[float, OPERATIONAL] = Field(60.0, gt=0, description="Timeout of one call in seconds.")
    connect_deadline: Annotated[float, OPERATIONAL] = Field(
        30.0, gt=0, description="Timeout in seconds for the server to start and list its tools."
    )
    only: tuple[str, ...] = Field((), description="Names of the tools to offer; empty for all.")
    prefix: str = Field("", description="Prefix of the tools' names, to keep tools of two servers apart.")

    @model_validator(mode="after")
    def _one_way(self) -> MCPSettings:
        if bool(self.command) == bool(self.url):
            raise ValueError("either command or url must be set, but not both")
        if self.url and urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError("url must start with http:// or https://")
        return self

    @property
    def server(self) -> str:
        return self.url or shlex.join([self.command, *self.args])


_TAIL = 20_000  # bytes of a program's stderr that are looked at

# Without a handler, Python prints what the package logs: a traceback for every invalid line of a server.
logging.getLogger("mcp").addHandler(logging.NullHandler())


class Lost(Exception):
    """The connection was lost. `sent` tells whether the call may have reached the server."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class Offered(NamedTuple):
    tools: Sequence[Tool]
    prompts: Sequence[Prompt]
    resources: Sequence[Resource]
    templates: Sequence[ResourceTemplate]  # resources whose addresses have a part to fill in


class Link:
    """A connection that starts when it is created and ends when the server goes away or `close` is called."""

    def __init__(self, settings: MCPSettings) -> None:
        self.settings = settings
        names = [*settings.pass_env, *filter(None, [settings.token_env])]
        if missing := [name for name in names if not os.environ.get(name)]:
            wrong = f"the MCP server {settings.server} needs the environment variable {', '.join(missing)}"
            raise AgentfwError(wrong, fix=f"export {missing[0]}=...")
        self._secrets = {name: os.environ[name] for name in names}
        self._ready: asyncio.Future[Offered] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.Event()
        self._scope: CancelScope | None = None
        self._client: Client | None = None
        self._cause: BaseException | None = None
        self._status = 0  # the last HTTP status that was an error
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - of a program; closed when that has ended
        self._said: list[str] = []
        self._task = asyncio.create_task(self._own(), name=f"mcp {settings.server}")

    @property
    def over(self) -> bool:
        return self._ended.is_set() or self._task.done()

    async def ready(self) -> Offered:
        """Wait for what the server offers. Cancelling one waiter doesn't affect the others."""
        return await asyncio.shield(self._ready)

    async def ask(self, request: Callable[[Client], Awaitable[Answer]]) -> Answer:
        """The server's answer to a request. Raises `MCPError` if it refuses and `Lost` if it is gone."""
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED, INVALID_REQUEST

        assert self._client is not None
        try:
            return await request(self._client)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                await self.close()
                said = self._said[-1:] or ([str(self._cause)] if self._cause else [])
                words = self._hidden(f"it last said: {said[0]}" if said else "it said nothing")
                raise Lost(words, sent=not _unreached(self._cause)) from None
            if error.code == INVALID_REQUEST and self._status == 404:
                # A restarted server doesn't know our session and did nothing.
                await self.close()
                raise Lost("it has forgotten the session", sent=False) from None
            raise

    async def close(self) -> None:
        """Close the connection, even while it is being opened."""
        self._ended.set()
        if self._scope is not None and not self._ready.done():
            self._scope.cancel()
        await asyncio.wait({self._task})

    async def _own(self) -> None:
        import anyio

        try:
            with anyio.fail_after(self.settings.connect_deadline) as self._scope:
                if not self._ended.is_set():
                    await self._live(self._scope)
        except Exception as error:
            self._cause = error
            while isinstance(self._cause, BaseExceptionGroup):  # of anyio's task groups
                self._cause = self._cause.exceptions[0]
        finally:
            self._ended.set()
            # Not by seek(): the program shares the place in the file.
            size = os.fstat(self._stderr.fileno()).st_size
            said = os.pread(self._stderr.fileno(), _TAIL, max(0, size - _TAIL)).decode(errors="replace")
            self._said = [line.rstrip()[:2000] for line in said.splitlines() if line.strip()]
            self._stderr.close()
            if not self._ready.done():
                self._ready.set_exception(self._failure())
                self._ready.exception()  # maybe nobody waits for it

    async def _live(self, scope: CancelScope) -> None:
        from mcp import Client, StdioServerParameters, stdio_client

        settings = self.settings
        transport: Transport
        async with AsyncExitStack() as stack:
            if settings.command:
                env = {**settings.env, **self._secrets}
                parameters = StdioServerParameters(command=settings.command, args=list(settings.args), env=env)
                transport = stdio_client(parameters, errlog=cast(TextIO, self._stderr))
            else:
                import httpx2
                from mcp.client.streamable_http import streamable_http_client

                async def note(response: httpx2.Response) -> None:
                    if response.status_code >= 400:
                        self._status = response.status_code

                token = self._secrets.get(settings.token_env)
                http = httpx2.AsyncClient(
                    headers={"authorization": f"Bearer {token}"} if token else {},
                    timeout=httpx2.Timeout(settings.connect_deadline, read=None),  # calls have their own timeout
                    event_hooks={"response": [note]},
                    # A configured proxy can't reach a server on this machine.
                    trust_env=urlsplit(settings.url).hostname not in ("localhost", "127.0.0.1", "::1"),
                )
                transport = streamable_http_client(settings.url, http_client=await stack.enter_async_context(http))
            client = await stack.enter_async_context(Client(_watched(transport, self._ended.set)))
            can = client.server_capabilities
            offered = Offered(
                await _listed(client.list_tools, "tools") if can.tools else (),
                await _listed(client.list_prompts, "prompts") if can.prompts else (),
                await _listed(client.list_resources, "resources") if can.resources else (),
                await _listed(client.list_resource_templates, "resource_templates") if can.resources else (),
            )
            scope.deadline = math.inf
            self._client = client
            self._ready.set_result(offered)
            await self._ended.wait()

    # -- what went wrong -----------------------------------------------------------------------------------------------

    def _failure(self) -> AgentfwError:
        """The error for a connection that could not be opened, with a fix."""
        settings, cause = self.settings, self._cause
        if isinstance(cause, ImportError):
            return MissingExtraError("the tool mcp", "web", module=cause.name or "mcp")
        fix = "check that the server is running, and check the URL"
        if settings.command:
            fix = f"run it by hand: {settings.server}"
        if isinstance(cause, TimeoutError):
            what = f"didn't list its tools within {settings.connect_deadline:g} s"
            fix += "; for a server that starts slowly, increase connect_deadline"
        elif settings.command and isinstance(cause, OSError):
            what = f"can't be started: {cause.strerror}"
            fix = f"check that {settings.command} is installed and on the PATH"
        elif settings.url and _unreached(cause):
            what = "can't be reached"
        elif self._status:
            what = f"answers with HTTP {self._status}"
            if self._status in (401, 403):
                fix = f"check the token in {settings.token_env}" if settings.token_env else "set token_env"
        else:
            what = "stopped before it listed its tools"
            what += f" ({cause})" if cause is not None and settings.url else ""
        said = "".join(f"\n  {line}" for line in self._said[-8:])
        what += f"; it last said:{said}" if said else ""
        return AgentfwError(self._hidden(f"the MCP server {settings.server} {what}"), fix=fix)

    def _hidden(self, text: str) -> str:
        for name, value in self._secrets.items():
            text = text.replace(value, f"<{name}>")
        return text


async def _listed(list_page: Callable[..., Awaitable[Any]], what: str) -> Sequence[Any]:
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = await list_page(cursor=cursor)
        found += getattr(page, what)
        cursor = page.next_cursor
        if not cursor:
            return found


@asynccontextmanager
async def _watched(
    transport: AbstractAsyncContextManager[TransportStreams], ended: Callable[[], None]
) -> AsyncIterator[TransportStreams]:
    """A transport that reports its end, which a session doesn't."""
    import anyio

    async with transport as (arriving, leaving), anyio.create_task_group() as group:
        passing, passed = anyio.create_memory_object_stream[Any](0)

        async def relay() -> None:
            try:
                async with passing:
                    async for message in arriving:
                        await passing.send(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # the session or the transport is closing
            ended()

        group.start_soon(relay)
        try:
            yield passed, leaving
        finally:
            group.cancel_scope.cancel()


def _unreached(error: BaseException | None) -> bool:
    """Whether an error means that the request was not received."""
    return error is not None and type(error).__name__ in ("ConnectError", "ConnectTimeout")
