"""Sends a request whose reader may leave at any moment.

A task that is cancelled while httpcore connects, or while it puts a connection back, loses the connection: nobody
closes it, and its place in the pool is never free again (encode/httpcore#1093). So each step is done by a task of its
own. Whoever waits for one may be cancelled; the step itself is cancelled only while it waits for the server.

    response = await sent(client, client.build_request("POST", url, content=content))
    ...     # response.aiter_bytes(), response.aclose()
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

import httpx

Result = TypeVar("Result")

_stopping = set[asyncio.Task[None]]()
"""The steps that nobody waits for any more. The event loop itself doesn't keep its tasks."""


async def sent(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Send a request. Returns when the headers of the answer are there; its body is to be read, and closed."""
    steps = _Steps()
    request.extensions["trace"] = steps.trace
    response = await steps.take(client.send(request, stream=True))
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _Body(response.stream, steps)
    return response


class _Steps:
    """The steps of one exchange: send the request, read each part of the answer, and close it."""

    def __init__(self) -> None:
        self._sending, self._is_closing = asyncio.Event(), False

    async def trace(self, event: str, about: object) -> None:
        """Called by httpcore with everything that it does."""
        if event.endswith("send_request_headers.started"):
            self._sending.set()
        elif event.endswith(("receive_response_body.complete", "response_closed.started")):
            self._is_closing = True

    async def take(self, step: Coroutine[Any, Any, Result]) -> Result:
        task = asyncio.create_task(step)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            stopping = asyncio.create_task(self._stop(task))
            _stopping.add(stopping)
            stopping.add_done_callback(_stopping.discard)
            raise

    async def _stop(self, task: asyncio.Task[Any]) -> None:
        sending = asyncio.create_task(self._sending.wait())
        await asyncio.wait([task, sending], return_when=asyncio.FIRST_COMPLETED)
        sending.cancel()
        if not self._is_closing:
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None and isinstance(task.result(), httpx.Response):
            await task.result().aclose()


class _Body(httpx.AsyncByteStream):
    """The body of an answer."""

    def __init__(self, stream: httpx.AsyncByteStream, steps: _Steps) -> None:
        self._stream, self._steps = stream, steps

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = aiter(self._stream)
        while (part := await self._steps.take(_next(parts))) is not None:
            yield part

    async def aclose(self) -> None:
        await self._steps.take(self._stream.aclose())


async def _next(parts: AsyncIterator[bytes]) -> bytes | None:
    """The next part; None after the last."""
    return await anext(parts, None)
