"""Serves an application over HTTP in this process, on this event loop.

async with serving(gateway.app, "127.0.0.1", 0) as url:
    ...     # url is http://127.0.0.1:PORT
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

from agentfw.boundary.gate import needing
from agentfw.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["serving"]

_BACKLOG = 2048


@asynccontextmanager
async def serving(
    app: ASGIApp, host: str, port: int, *, drain: float = 5.0, hurry: asyncio.Event | None = None
) -> AsyncIterator[str]:
    """Serve while the block runs. Port 0 takes any free one.

    After the block nothing else is accepted. Requests in progress have `drain` seconds to end, or until `hurry` is set.
    """
    with needing("the gateway", "web"):
        import uvicorn

    _open_many_files()
    listener = _bound(host, port)
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,  # paths and headers can have what must not be written anywhere
        lifespan="off",
        server_header=False,
        timeout_keep_alive=75,  # clients keep connections for a while, and fail on one that was just closed
        timeout_graceful_shutdown=math.ceil(drain),
    )

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave Ctrl-C to whoever runs this."""
            yield

    server = Server(config)
    running = asyncio.create_task(server.serve([listener]))
    try:
        while not server.started:
            if running.done():
                await running
                raise UsageError(f"the server on {host}:{port} did not start", fix="choose another --port")
            await asyncio.sleep(0.002)
        name, number = listener.getsockname()[:2]
        yield f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"
    finally:
        server.should_exit = True
        hurrying = asyncio.create_task((hurry or asyncio.Event()).wait())
        await asyncio.wait([running, hurrying], return_when=asyncio.FIRST_COMPLETED)
        server.force_exit = hurrying.done()
        hurrying.cancel()
        await running
        listener.close()


def _open_many_files() -> None:
    """Let this process have as many connections as it may. Each answer that is passed on takes two."""
    with suppress(ImportError, OSError, ValueError):  # Windows has no such limit
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise UsageError(f"can't listen on {host}:{port}: {error.strerror}", fix="choose another --port") from None
    listener.setblocking(False)
    return listener
