"""Any server that speaks OpenAI's chat completions, as a policy: vLLM, llama.cpp, Ollama, a hosted model.

The one rule: a request ends. It is tried again while that can help, for at most `deadline` seconds, and then it is an
error that says where, how often and what came back. What the *model* gets wrong is data and never an error.

    agentfw run calendar --policy openai --set policy.base_url=http://localhost:8000/v1

Token ids and logprobs, which training needs, are asked for the way vLLM gives them (`return_token_ids`). A server that
refuses a field it doesn't know is asked again without it, and not troubled with it afterwards.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from agentfw import Settings
from agentfw.errors import AgentfwError, EndpointError, RequestRefusedError, nearest
from agentfw.policy import Generation, Policy, Request

from .openai_wire import Malformed, chat_body, plain_words, read_answer, retry_after

if TYPE_CHECKING:
    import httpx

__all__ = ["OpenAIPolicy", "OpenAISettings"]

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")

_TRIED_AGAIN = {408, 409, 429}  # and every 5xx
_THIS_ONE = {400, 413, 422}  # refusals that are about what was asked; another request may be taken
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0  # seconds; the bounds of the jitter, doubled from try to try
_CONNECT = 10.0  # seconds; a host that doesn't even accept by then is tried again
_OWN_FIELDS = {"messages", "model", "n", "stream", "tools"}

# Fields that a server may refuse, and how its words tell which one it was.
_REFUSABLE = {
    "return_token_ids": re.compile(r"\breturn_token_ids\b"),
    "logprobs": re.compile(r"\blogprobs?\b", re.I),
    "seed": re.compile(r"\bseed\b", re.I),
    "max_tokens": re.compile(r"\bmax_completion_tokens\b"),
    "tools": re.compile(r"\btools?\b|\btool[_ -]", re.I),
}
_TOO_LONG = re.compile(r"context (length|window|size)|maximum context|max_model_len|is too (long|large)", re.I)


class OpenAISettings(Settings):
    base_url: str = Field(
        "http://localhost:8000/v1", description="Where the server is, up to and including /v1; the default is vLLM's."
    )
    model: str = Field("", description="Which model to ask; empty takes the first that the server lists.")
    api_key_env: str = Field(
        "OPENAI_API_KEY",
        description="The environment variable with the key: a key in the settings would end up in the run's folder.",
    )
    concurrency: int = Field(32, ge=1, description="How many requests may be in flight: more would only wait there.")
    deadline: float = Field(
        300.0, gt=0, description="Seconds for one request with all its retries, so that a dead server can't stop a run."
    )
    retries: int = Field(5, ge=0, description="How many more times a request is tried when the server is busy or gone.")
    token_ids: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Whether to ask for token ids and logprobs: training needs them (on: without them it is an error), "
        "and without them (off) answers are smaller.",
    )
    extra_body: dict[str, Any] = Field(
        default_factory=dict, description="Further fields of the request, for what only this server knows."
    )

    @field_validator("base_url")
    @classmethod
    def _address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must begin with http:// or https:// and name a host")
        if parts.username or parts.password:
            raise ValueError("must hold no password; name its environment variable in api_key_env")
        _ = parts.port  # raises a ValueError where it is no port
        return value.rstrip("/")

    @field_validator("extra_body")
    @classmethod
    def _extra(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := sorted(_OWN_FIELDS & value.keys()):
            raise ValueError(f"must leave {', '.join(taken)} to the policy")
        return value


class _Connection(NamedTuple):
    """What belongs to one event loop."""

    client: httpx.AsyncClient
    slots: asyncio.Semaphore
    naming: asyncio.Lock
    """Held while the server is asked for its models: many requests begin at once and one question is enough."""


class _Refused(Exception):
    """An answer that trying again won't change."""

    def __init__(self, url: str, status: int, words: str) -> None:
        super().__init__(f"{url} refused: HTTP {status}")
        self.url, self.status, self.words = url, status, words


class OpenAIPolicy(Policy):
    """A model behind an OpenAI-compatible address."""

    def __init__(self, settings: OpenAISettings) -> None:
        self.settings = settings
        self._model = settings.model
        self._refused: set[str] = set()
        self._connections: dict[asyncio.AbstractEventLoop, _Connection] = {}
        # Not a named generator: how long a retry waits is no part of any result.
        self._jitter = random.Random()

    async def generate(self, request: Request) -> Generation:
        connection = self._connection()
        async with connection.slots:
            # The clock starts with the slot: waiting for one's turn here says nothing about the server.
            until = asyncio.get_running_loop().time() + self.settings.deadline
            try:
                model = await self._named(connection, until)
                generation = await self._completed(connection, request, model, until)
            except _Refused as refusal:
                raise await self._explained(connection, refusal) from None
        generation.version = generation.version or model
        if self.settings.token_ids == "on" and not (generation.token_ids and generation.logprobs):
            raise EndpointError(
                f"{self.settings.base_url} gave no token ids with their logprobs, and token_ids is on",
                mend="use a server that knows return_token_ids, such as a recent vLLM, or set token_ids to auto",
            )
        return generation

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
            at_once = self.settings.concurrency
            client = httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=_CONNECT),
                limits=httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once),
                # A proxy that the environment names can't reach a server on this machine.
                trust_env=urlsplit(self.settings.base_url).hostname not in ("localhost", "127.0.0.1", "::1"),
            )
            self._connections[loop] = _Connection(client, asyncio.Semaphore(at_once), asyncio.Lock())
        return self._connections[loop]

    # -- what is asked -------------------------------------------------------------------------------------------------

    async def _named(self, connection: _Connection, until: float) -> str:
        """The model to ask."""
        async with connection.naming:
            if not self._model:
                names = await self._models(connection, until)
                if not names:
                    raise EndpointError(
                        f"{self.settings.base_url} lists no models", mend="load one, or name one in model"
                    )
                self._model = names[0]
        return self._model

    async def _models(self, connection: _Connection, until: float) -> list[str]:
        def read(reply: object) -> list[str]:
            entries = reply.get("data") if isinstance(reply, dict) else None
            if not isinstance(entries, list):
                raise Malformed("the answer is no list of models")
            return [str(entry["id"]) for entry in entries if isinstance(entry, dict) and entry.get("id")]

        return await self._exchanged(connection, "/models", None, read, until)

    async def _completed(self, connection: _Connection, request: Request, model: str, until: float) -> Generation:
        """Ask, and ask again without whatever the server refuses to know."""
        names = {action.name for action in request.actions}
        without: dict[str, str] = {}  # fields, and in which words they were refused
        while True:
            body = self._body(request, model, self._refused | without.keys())
            try:
                generation = await self._exchanged(
                    connection, "/chat/completions", body, lambda reply: read_answer(reply, names), until
                )
            except _Refused as refusal:
                name = self._unknown(refusal, body)
                if name is None:
                    raise
                without[name] = refusal.words
            else:
                # Only now: where the request fails all the same, the words were about something else.
                for name in without.keys() - self._refused:
                    logger.warning("%s is asked without %s: %s", self.settings.base_url, name, without[name])
                self._refused |= without.keys()
                return generation

    def _body(self, request: Request, model: str, without: set[str]) -> dict[str, Any]:
        body = {"model": model, **chat_body(request, native="tools" not in without)}
        if self.settings.token_ids != "off":
            body |= {"logprobs": True, "return_token_ids": True}
        if "max_tokens" in without and "max_tokens" in body:
            body["max_completion_tokens"] = body.pop("max_tokens")
        return {name: value for name, value in body.items() if name not in without} | self.settings.extra_body

    def _unknown(self, refusal: _Refused, body: Mapping[str, Any]) -> str | None:
        """The field that a refusal is about and that can be left out, if there is one."""
        if refusal.status not in (400, 403, 422) or _TOO_LONG.search(refusal.words):
            return None
        wanted = {"return_token_ids", "logprobs"} if self.settings.token_ids == "on" else set()
        wanted |= self.settings.extra_body.keys()  # whoever wrote these wants to hear of it
        for name, pattern in _REFUSABLE.items():
            if name in body and name not in wanted and pattern.search(refusal.words):
                return name
        return None

    # -- how it is asked -----------------------------------------------------------------------------------------------

    async def _exchanged(
        self,
        connection: _Connection,
        path: str,
        body: Mapping[str, Any] | None,
        read: Callable[[object], Answer],
        until: float,
    ) -> Answer:
        """One question, tried until it has a usable answer, is refused, or there is no more time."""
        import httpx

        loop = asyncio.get_running_loop()
        url, headers, key = self.settings.base_url + path, {"content-type": "application/json"}, self._key()
        if key:
            headers["authorization"] = f"Bearer {key}"
        method, content = ("GET", None) if body is None else ("POST", json.dumps(body))
        tries, last, check = 0, "", ""
        while True:
            tries += 1
            asked: float | None = None  # how long the server wants to be left alone
            try:
                async with asyncio.timeout_at(until):
                    response = await connection.client.request(method, url, content=content, headers=headers)
            except TimeoutError:
                last = f"{last}, then no answer in time" if last else "no answer in time"
                check = "is the server overloaded? lower concurrency, or raise deadline"
                break
            except httpx.RequestError as error:
                last = f"{type(error).__name__}: {error}".removesuffix(": ")
                check = "is the server running, and is the port right?"
            else:
                words = plain_words(response, key)
                if response.status_code in _TRIED_AGAIN or response.status_code >= 500:
                    last, asked = f"HTTP {response.status_code}: {words}", retry_after(response)
                    busy = response.status_code == 429
                    check = "lower concurrency, or raise deadline" if busy else "what does the server's log say?"
                elif response.status_code != 200:
                    raise _Refused(url, response.status_code, words)
                else:
                    try:
                        return read(response.json())
                    except Malformed as error:
                        last = f"{error}: {words}"
                    except (ValueError, RecursionError):
                        last = f"the answer is no JSON: {words}"
                    check = "is that an OpenAI-compatible server, and does base_url end in /v1?"
            pause = self._jitter.uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (tries - 1)))
            if asked is not None:
                pause = asked + min(pause, 1.0)
            if tries > self.settings.retries or loop.time() + pause >= until:
                break
            await asyncio.sleep(pause)
        times = "1 try" if tries == 1 else f"{tries} tries"
        raise EndpointError(
            f"{url} gave no usable answer in {times} (deadline {self.settings.deadline:g} s); last: {last}", mend=check
        )

    def _key(self) -> str:
        name = self.settings.api_key_env
        key = os.environ.get(name, "").strip() if name else ""
        if not (key.isascii() and key.isprintable()):
            # Said here, because httpx would say it with the key in its words.
            raise EndpointError(
                f"the key in {name} can't be sent: it holds more than printable ASCII", mend=f"set {name} anew"
            )
        return key

    async def _explained(self, connection: _Connection, refusal: _Refused) -> AgentfwError:
        """A refusal as an error that says what to check."""
        name, status = self.settings.api_key_env, refusal.status
        if status in (401, 403):
            mend = (
                f"is the key in the environment variable {name} the right one?"
                if name
                else "name the key's environment variable in api_key_env"
            )
            if name and not os.environ.get(name):
                mend = f"the environment variable {name} is not set; it should hold the key"
        elif status == 404:
            mend = await self._nearest_model(connection)
        elif _TOO_LONG.search(refusal.words):
            mend = "prompt and max_tokens exceed the model's context: lower window or max_tokens, or serve a longer one"
        else:
            mend = "the request is not what this server expects; what does its log say?"
        kind = RequestRefusedError if status in _THIS_ONE else EndpointError
        return kind(f"{refusal.url} refused: HTTP {status}: {refusal.words}", mend=mend)

    async def _nearest_model(self, connection: _Connection) -> str:
        until = asyncio.get_running_loop().time() + min(_CONNECT, self.settings.deadline)
        try:
            names = await self._models(connection, until)
        except (EndpointError, _Refused):
            return "does base_url end in /v1?"
        guess = nearest(self._model, names)
        shown = ", ".join(names[:10]) or "none"
        return (
            f"the model {self._model!r} isn't there; "
            + (f"did you mean {guess!r}? " if guess else "")
            + f"known: {shown}"
        )
