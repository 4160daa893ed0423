"""A client for JSON over HTTP, with retries and a deadline.

Every request ends. It is retried while that can help, for at most `deadline` seconds. Then it raises an error with the
address, the number of tries and the last answer.
"""

from __future__ import annotations

import asyncio
import functools
import io
import ipaddress
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
from urllib.request import getproxies, proxy_bypass

from agentfw.errors import EndpointError, QuotaEndedError, one_line

from ...protocols.answers import StreamedReply
from ...protocols.completion import parsed, table
from ...protocols.protocol import Malformed

if TYPE_CHECKING:
    import ssl

    import aiohttp

Answer = TypeVar("Answer")

_TRIED_AGAIN = {408, 409, 429}  # also retried: every 5xx
_QUOTA_ENDED = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0  # seconds; bounds of the jitter, which doubles from try to try
_CONNECT = 10.0  # seconds; a host that doesn't accept a connection by then is tried again
_REFUSED = 2.5  # seconds for the first request to a server that takes no connection; the others try once
_LONGEST_HEADER, _LARGE = 65_536, 1_000_000  # bytes
REFUSES_ONE = {400, 413, 422}  # refusals that concern one request; another request may succeed
LARGEST = 32_000_000  # bytes of an answer; 100,000 tokens with their ids and logprobs take about 20 MB


class Refused(Exception):
    """A refusal that retrying won't change."""

    def __init__(self, url: str, status: int, words: str) -> None:
        super().__init__(f"{url} refused: HTTP {status}")
        self.url, self.status, self.words = url, status, words


_OF_OPENAI = ("openai.com", "openai.azure.com")
_OF_THIS_NETWORK = ("local", "localhost", "internal", "svc", "lan")


def is_listed(url: str) -> bool:
    """Whether a server may get OPENAI_API_KEY when nobody said so: OpenAI's own, Azure's, and one of this network."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if f".{host}".endswith(tuple(f".{name}" for name in (*_OF_OPENAI, *_OF_THIS_NETWORK))):
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host


def key_in(variable: str, *, default_for: str = "") -> str:
    """The key in an environment variable. Empty if none is named or set.

    `default_for` is the address of a server for which nobody has named the variable: most get no key then.
    """
    if default_for and not is_listed(default_for):
        return ""
    key = os.environ.get(variable, "").strip() if variable else ""
    if not (key.isascii() and key.isprintable()):
        # Checked here, because aiohttp would put the key into its error.
        words = f"the key in {variable} can't be sent: it has characters other than printable ASCII"
        raise EndpointError(words, fix=f"set {variable}")
    return key


class _Connection(NamedTuple):
    client: aiohttp.ClientSession
    slots: asyncio.Semaphore
    lock: asyncio.Lock


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: bytes
    streamed: bool = False

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    @property
    def quota_ended(self) -> bool:
        """Whether the account is used up, which servers report like a request too many (429)."""
        if self.status not in (403, 429):
            return self.status == 402
        error = table(table(parsed(self.text)).get("error"))
        return not _QUOTA_ENDED.isdisjoint({str(error.get(name)) for name in ("code", "type")})

    @property
    def retry_after(self) -> float | None:
        """The Retry-After header in seconds from now. It contains either seconds or a date."""
        value = self.headers.get("retry-after", "")
        try:
            seconds = float(value)
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - time.time()
            except ValueError:
                return None
        return max(0.0, seconds) if math.isfinite(seconds) else None


class Endpoint:
    """One address, with a limit on concurrent requests."""

    def __init__(
        self,
        url: str,
        *,
        concurrency: int,
        deadline: float,
        retries: int,
        key: Callable[[], str] = lambda: "",
        key_header: str = "authorization",
        headers: Mapping[str, str] | None = None,
        advice: str = "check that it is an OpenAI-compatible server and that base_url ends in /v1",
    ) -> None:
        self.url, self.concurrency, self.deadline, self.retries = url, concurrency, deadline, retries
        self.key, self._key_header, self._advice = key, key_header.lower(), advice
        self._own_headers = {**(headers or {})}
        self._was_reached: bool | None = None
        self._connections: dict[asyncio.AbstractEventLoop, _Connection] = {}
        self._closing: list[asyncio.Task[None]] = []
        # Not a named generator: the pauses between retries don't affect results.
        self._jitter = random.Random()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[float]:
        """Wait for a free slot. Yields the time until which there must be an answer."""
        async with self._connection().slots:
            # The clock starts with the slot, because waiting for a slot says nothing about the server.
            yield asyncio.get_running_loop().time() + self.deadline

    def lock(self) -> asyncio.Lock:
        """A lock for work that the first request has to do once."""
        return self._connection().lock

    async def close(self) -> None:
        if (connection := self._connections.pop(asyncio.get_running_loop(), None)) is not None:
            await connection.client.close()

    def _connection(self) -> _Connection:
        loop = asyncio.get_running_loop()
        if loop in self._connections:
            return self._connections[loop]
        import aiohttp

        ended = [self._connections.pop(other) for other in [*self._connections] if other.is_closed()]
        self._closing = [loop.create_task(one.client.close()) for one in ended]
        address, proxies = urlsplit(self.url), getproxies()
        tls: ssl.SSLContext | bool = True
        # No proxy of the environment reaches this machine.
        is_direct = address.hostname in ("localhost", "127.0.0.1", "::1") or proxy_bypass(address.hostname or "")
        if address.scheme == "https":
            import httpx

            tls = httpx.create_ssl_context()  # knows certificates everywhere, and SSL_CERT_FILE
        client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls),  # the slots are the limit
            timeout=aiohttp.ClientTimeout(sock_connect=_CONNECT),
            cookie_jar=aiohttp.DummyCookieJar(),  # no user gets the cookies of another
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            proxy=None if is_direct else proxies.get(address.scheme, proxies.get("all")),
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
        streamed: StreamedReply | None = None,
    ) -> Answer:
        """Send one request, and retry it until it has a usable answer, is refused, or the deadline has passed.

        The answer is parsed as JSON or, with `text`, returned as it is. With `streamed`, it may come as a stream. After
        the first piece of a stream the request is not retried, because the piece can't be taken back.
        """
        import aiohttp

        loop = asyncio.get_running_loop()
        began = loop.time()
        url, key, content = self.url + path, self.key(), None if body is None else json.dumps(body).encode()
        tries, last, check = 0, "", ""
        while True:
            tries += 1
            asked: float | None = None  # how long the server asks to wait
            try:
                async with asyncio.timeout_at(until) as limit:
                    answer = await self._send(path, content, streamed, limit)
            except aiohttp.ClientError as error:  # some are a TimeoutError, too
                last = f"{type(error).__name__}: {error}".removesuffix(": ")
                check = "check that the server is running, and that the port is right"
                if not self._was_reached and isinstance(error, aiohttp.ClientConnectorError):
                    until = min(until, began + (_REFUSED if self._was_reached is None else 0.0))
            except TimeoutError:
                last = f"{last}, then no answer in time" if last else "no answer in time"
                check = "the server may be overloaded: lower concurrency, or raise deadline"
                break
            except Malformed as error:
                last, check = str(error), self._advice
            else:
                words = functools.partial(_plain_words, answer, key)  # a good answer may be long, and needs none
                if answer.quota_ended:
                    raise QuotaEndedError(
                        f"the account at {self.url} is used up: HTTP {answer.status}: {words()}",
                        fix="add credit or raise its limit, then resume: answers so far are kept",
                    )
                if answer.status in _TRIED_AGAIN or answer.status >= 500:
                    last, asked = f"HTTP {answer.status}: {words()}", answer.retry_after
                    busy = answer.status == 429
                    check = "lower concurrency, or raise deadline" if busy else "see the server's log"
                elif 300 <= answer.status < 400:
                    where = answer.headers.get("location") or "an address that it doesn't name"
                    raise Refused(url, answer.status, f"it redirects to {one_line(where)}")
                elif answer.status != 200:
                    raise Refused(url, answer.status, words())
                else:
                    try:
                        if streamed is not None and answer.streamed:
                            return read(streamed.whole())
                        return read(answer.text if text else json.loads(answer.content))
                    except Malformed as error:
                        last = f"{error}: {words()}".removesuffix(": ")
                    except (ValueError, RecursionError):
                        last = f"the answer is not JSON: {words()}"
                    check = self._advice
            pause = self._jitter.uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (tries - 1)))
            if asked is not None:
                pause = asked + min(pause, 1.0)
            heard = streamed is not None and streamed.heard
            if heard or tries > self.retries or loop.time() + pause >= until:
                break
            await asyncio.sleep(pause)
        self._was_reached = bool(self._was_reached)
        times = "1 try" if tries == 1 else f"{tries} tries"
        told = f"{url} gave no usable answer in {times} (deadline {self.deadline:g} s); last: {last}"
        raise EndpointError(told, fix=check)

    @asynccontextmanager
    async def once(
        self,
        path: str,
        content: bytes | None,
        headers: Mapping[str, str],
        method: str = "POST",
        *,
        with_key: bool = True,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request, once, and give back what comes, whatever its status. Errors are those of aiohttp."""
        kind = {} if "content-type" in headers else {"content-type": "application/json"}
        key = self.key() if with_key else ""
        own = {self._key_header: f"Bearer {key}" if self._key_header == "authorization" else key} if key else {}
        headers = {**self._own_headers, **kind, **headers, **own}
        from yarl import URL

        # As a file, a large body is sent piece by piece.
        data = io.BytesIO(content) if content and len(content) > _LARGE else content
        address = URL(self.url + path, encoded=True)
        client = self._connection().client
        async with client.request(method, address, data=data, headers=headers, allow_redirects=False) as response:
            self._was_reached = True
            yield response

    async def _send(
        self, path: str, content: bytes | None, streamed: StreamedReply | None, limit: asyncio.Timeout
    ) -> _Answer:
        async with self.once(path, content, {}, "GET" if content is None else "POST") as response:
            kind = response.headers.get("content-type", "")
            streams = streamed is not None and response.status == 200 and kind.startswith("text/event-stream")
            if streamed is not None:
                streamed.begin()
            received, size = bytearray(), 0
            async for part in response.content.iter_any():
                received += part
                size += len(part)
                if streams and streamed is not None:
                    # It may be long, as long as something comes.
                    limit.reschedule(asyncio.get_running_loop().time() + self.deadline)
                    *lines, received = received.split(b"\n")
                    for line in lines:
                        streamed.take(bytes(line))
                if size > LARGEST:
                    words = f"sent more than {LARGEST // 1_000_000} MB in one answer, and the rest was not read"
                    raise EndpointError(f"{self.url}{path} {words}", fix=f"{self._advice}, or lower max_tokens")
            if streams and streamed is not None:  # the last line may lack its end
                streamed.take(bytes(received))
            return _Answer(response.status, response.headers, bytes(received), streams)


def _plain_words(answer: _Answer, key: str) -> str:
    """An error answer on one line, if possible the server's own message. Keys that servers quote are removed."""
    text, reply = answer.text, parsed(answer.text)
    for name in ("error", "detail"):
        if isinstance(reply, dict) and reply.get(name):
            reply = reply[name]
    if isinstance(reply, list):  # from FastAPI: locations of errors, and also the input, which may be anything
        reply = "; ".join(f"{entry.get('loc')} {entry.get('msg')}" for entry in reply if isinstance(entry, dict))
    if isinstance(reply, dict) and reply.get("message"):
        reply = " ".join(str(reply[part]) for part in ("message", "param") if reply.get(part))
    if reply is not None:
        text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
    if key:
        text = text.replace(key, "***")
    return one_line(text)
