"""Serves the pages of `agentfw view` to a test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agentfw.testing import fresh_host

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

HOST = fresh_host(builtins=True)


@contextmanager
def viewed(runs: Path, prefix: str = "", *, is_read: bool = True) -> Iterator[str]:
    """Serve the page in a thread, as a proxy does below a prefix. Gives its address."""
    from starlette.responses import PlainTextResponse

    from agentfw_plugins.serving import serving
    from agentfw_plugins.view.app import Viewer
    from agentfw_plugins.view.index import Index

    address, ready, stop = list[str](), threading.Event(), list[Callable[[], object]]()

    def run() -> None:
        async def main() -> None:
            ended, loop = asyncio.Event(), asyncio.get_running_loop()
            stop.append(lambda: loop.call_soon_threadsafe(ended.set))
            index = Index(runs)
            if is_read:
                index.refresh()
            viewer = Viewer(index, HOST).app

            async def below(scope: Scope, receive: Receive, send: Send) -> None:
                if scope["type"] == "http" and not scope["path"].startswith(f"{prefix}/"):
                    await PlainTextResponse("outside of the prefix", 404)(scope, receive, send)
                    return
                inner = {**scope, "path": scope["path"].removeprefix(prefix)} if scope["type"] == "http" else scope
                await viewer(inner, receive, send)

            async with serving(below, "127.0.0.1", 0) as url:
                address.append(f"{url}{prefix}")
                ready.set()
                await ended.wait()

        asyncio.run(main())

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(300)
    try:
        yield address[0]
    finally:
        stop[0]()
        thread.join()
