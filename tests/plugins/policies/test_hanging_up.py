"""An answer that nobody waits for any more: wherever its request is stopped, no connection is left."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from agentfw_plugins.policies.http.endpoint import Endpoint

MOMENTS = 60
"""A request takes fewer turns of the event loop than this."""


class Server:
    """Answers in two pieces, and counts its connections."""

    def __init__(self, keeps: bool) -> None:
        self.keeps, self.open, self.changed = keeps, 0, asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                connection = b"keep-alive" if self.keeps else b"close"
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: " + connection + b"\r\n\r\nan")
                await asyncio.sleep(0)
                writer.write(b"swer")
                if not self.keeps:
                    break
        self.open -= 1
        self.changed.set()
        writer.close()

    async def until_at_most(self, count: int) -> None:
        async with asyncio.timeout(60):
            while self.open > count:
                await self.changed.wait()
                self.changed.clear()


async def read(endpoint: Endpoint) -> bytes:
    async with endpoint.slot(), endpoint.once("/", None, {}, "GET") as response:
        return b"".join([part async for part in response.content.iter_any()])


@pytest.mark.parametrize("keeps", [True, False])
def test_a_request_that_is_stopped_at_any_moment_leaves_no_connection(keeps: bool) -> None:
    async def run() -> None:
        server = Server(keeps)
        listener = await asyncio.start_server(server.answer, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        endpoint = Endpoint(f"http://127.0.0.1:{port}", concurrency=1, deadline=60, retries=0)
        for moment in range(5 * MOMENTS):
            reading = asyncio.create_task(read(endpoint))
            for _ in range(moment % MOMENTS):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        async with asyncio.timeout(60):
            assert await read(endpoint) == b"answer"
        await server.until_at_most(1)
        await endpoint.close()
        await server.until_at_most(0)
        listener.close()

    asyncio.run(run())
