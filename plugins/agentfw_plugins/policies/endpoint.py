"""An address that is asked in JSON, as often as it takes and no longer than it may.

The one rule: a question ends. It is tried again while that can help, for at most `deadline` seconds, and then it is an
error that says where, how often and what came back.

    endpoint = Endpoint("http://localhost:8000", concurrency=32, deadline=300, retries=5)
    async with endpoint.slot() as until:
        names = await endpoint.ask("/v1/models", None, read_names, until)
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from agentfw.errors import EndpointError

if TYPE_CHECKING:
    import httpx

__all__ = ["Endpoint", "Malformed", "Refused", "key_in"]

Answer = TypeVar("Answer")

_TRIED_AGAIN = {408, 409, 429}  # and every 5xx
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0  # seconds; the bounds of the jitter, doubled from try to try
_CONNECT = 10.0  # seconds; a host that doesn't even accept by then is tried again


class Malformed(Exception):
    """An answer that isn't what it should be, in words."""


class Refused(Exception):
    """An answer that trying again won't change."""

    def __init__(self, url: str, status: int, words: str) -> None:
        super().__init__(f"{url} refused: HTTP {status}")
        self.url, self.status, self.words = url, status, words


def key_in(variable: str) -> str:
    """The key that an environment variable holds; empty where none is named or set."""
    key = os.environ.get(variable, "").strip() if variable else ""
    if not (key.isascii() and key.isprintable()):
        # Said here, because httpx would say it with the key in its words.
        raise EndpointError(
            f"the key in {variable} can't be sent: it holds more than printable ASCII", fix=f"set {variable} anew"
        )
    return key


class _Connection(NamedTuple):
    """What belongs to one event loop."""

    client: httpx.AsyncClient
    slots: asyncio.Semaphore
    lock: asyncio.Lock


class Endpoint:
    """One address, and how many questions it may have at once."""

    def __init__(
        self,
        url: str,
        *,
        concurrency: int,
        deadline: float,
        retries: int,
        key: Callable[[], str] = lambda: "",
        advice: str = "is that an OpenAI-compatible server, and does base_url end in /v1?",
    ) -> None:
        self.url, self.concurrency, self.deadline, self.retries = url, concurrency, deadline, retries
        self.key, self._advice = key, advice
        self._connections: dict[asyncio.AbstractEventLoop, _Connection] = {}
        # Not a named generator: how long a retry waits is no part of any result.
        self._jitter = random.Random()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[float]:
        """Wait for one's turn; then it is known until when there has to be an answer."""
        async with self._connection().slots:
            # The clock starts with the slot: waiting for one's turn here says nothing about the server.
            yield asyncio.get_running_loop().time() + self.deadline

    def lock(self) -> asyncio.Lock:
        """For what has to be done once, by whoever comes first."""
        return self._connection().lock

    async def close(self) -> None:
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.client.aclose()

    def _connection(self) -> _Connection:
        loop = asyncio.get_running_loop()
        if loop not in self._connections:
            import httpx

            for other in [other for other in self._connections if other.is_closed()]:
                del self._connections[other]
            client = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=_CONNECT),
                limits=httpx.Limits(max_connections=self.concurrency, max_keepalive_connections=self.concurrency),
                # A proxy that the environment names can't reach a server on this machine.
                trust_env=urlsplit(self.url).hostname not in ("localhost", "127.0.0.1", "::1"),
            )
            self._connections[loop] = _Connection(client, asyncio.Semaphore(self.concurrency), asyncio.Lock())
        return self._connections[loop]

    async def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        read: Callable[[object], Answer],
        until: float,
        *,
        text: bool = False,
    ) -> Answer:
        """One question, tried until it has a usable answer, is refused, or there is no more time.

        What comes back is read as JSON, or, with `text`, as it is.
        """
        import httpx

        loop = asyncio.get_running_loop()
        url, headers, key = self.url + path, {"content-type": "application/json"}, self.key()
        if key:
            headers["authorization"] = f"Bearer {key}"
        method, content = ("GET", None) if body is None else ("POST", json.dumps(body))
        tries, last, check = 0, "", ""
        while True:
            tries += 1
            asked: float | None = None  # how long the server wants to be left alone
            try:
                async with asyncio.timeout_at(until):
                    response = await self._connection().client.request(method, url, content=content, headers=headers)
            except TimeoutError:
                last = f"{last}, then no answer in time" if last else "no answer in time"
                check = "is the server overloaded? lower concurrency, or raise deadline"
                break
            except httpx.RequestError as error:
                last = f"{type(error).__name__}: {error}".removesuffix(": ")
                check = "is the server running, and is the port right?"
            else:
                words = _plain_words(response, key)
                if response.status_code in _TRIED_AGAIN or response.status_code >= 500:
                    last, asked = f"HTTP {response.status_code}: {words}", _retry_after(response)
                    busy = response.status_code == 429
                    check = "lower concurrency, or raise deadline" if busy else "what does the server's log say?"
                elif response.status_code != 200:
                    raise Refused(url, response.status_code, words)
                else:
                    try:
                        return read(response.text if text else response.json())
                    except Malformed as error:
                        last = f"{error}: {words}"
                    except (ValueError, RecursionError):
                        last = f"the answer is no JSON: {words}"
                    check = self._advice
            pause = self._jitter.uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (tries - 1)))
            if asked is not None:
                pause = asked + min(pause, 1.0)
            if tries > self.retries or loop.time() + pause >= until:
                break
            await asyncio.sleep(pause)
        times = "1 try" if tries == 1 else f"{tries} tries"
        raise EndpointError(
            f"{url} gave no usable answer in {times} (deadline {self.deadline:g} s); last: {last}", fix=check
        )


def _retry_after(response: httpx.Response) -> float | None:
    """The header of that name, in seconds from now: it is given as such or as a date."""
    value = response.headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _plain_words(response: httpx.Response, key: str) -> str:
    """What an answer says, in a line: the error's own words where it has them. Servers quote keys; the line doesn't."""
    text = response.text
    try:
        reply: Any = json.loads(text)
        for name in ("error", "detail"):
            if isinstance(reply, dict) and reply.get(name):
                reply = reply[name]
        if isinstance(reply, list):  # of FastAPI: what is wrong where, and also what was sent, which may be anything
            reply = "; ".join(f"{entry.get('loc')} {entry.get('msg')}" for entry in reply if isinstance(entry, dict))
        if isinstance(reply, dict) and reply.get("message"):
            reply = " ".join(str(reply[part]) for part in ("message", "param") if reply.get(part))
        text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
    except (ValueError, RecursionError):
        pass
    if key:
        text = text.replace(key, "***")
    text = " ".join(text.split())
    return text if len(text) <= 300 else f"{text[:297]}..."
