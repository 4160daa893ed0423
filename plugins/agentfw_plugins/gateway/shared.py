"""One gateway on this machine for all programs that an event loop runs: started with the first, stopped with the last.

async with reachable(session) as url:
    ...     # url is http://127.0.0.1:PORT/s/NAME, and NAME is known to nobody else
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakKeyDictionary

from agentfw import Session

from ..serving import serving
from .app import Gateway
from .sessions.session_finder import OpenSessionFinder

__all__ = ["reachable"]


class _Shared:
    """The gateway of one event loop."""

    def __init__(self) -> None:
        self.users, self.url, self.lock, self.stack = 0, "", asyncio.Lock(), AsyncExitStack()
        self.finder = OpenSessionFinder()
        self.gateway = Gateway(self.finder)


_OF_LOOP: WeakKeyDictionary[asyncio.AbstractEventLoop, _Shared] = WeakKeyDictionary()


@asynccontextmanager
async def reachable(session: Session) -> AsyncIterator[str]:
    """Let programs use a session while the block runs, and wait for the answers that are still in progress."""
    shared = _OF_LOOP.setdefault(asyncio.get_running_loop(), _Shared())
    async with shared.lock:
        shared.users += 1
        if shared.users == 1:
            shared.url = await shared.stack.enter_async_context(serving(shared.gateway.app, "127.0.0.1", 0))
    name = shared.finder.open(session)
    try:
        yield f"{shared.url}/s/{name}"
        await shared.gateway.working.finish(session)
    finally:
        del shared.finder.sessions[name]
        async with shared.lock:
            shared.users -= 1
            if not shared.users:
                await shared.stack.aclose()
