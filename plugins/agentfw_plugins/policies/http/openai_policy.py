"""A policy for any server with OpenAI's chat completions API (vLLM, llama.cpp, Ollama, a hosted model), or another.

Mistakes of the *model* are data, not errors. Training needs token ids and logprobs. They are requested as in vLLM
(`return_token_ids`). If a server rejects a field that agentfw added, the request is repeated without it, and later
requests omit it. Tools are omitted, and described in the prompt instead, only if the server rejects those of a request
of our own too. Behind the gateway, requests are passed on (`forwarding.py`).

Answers of a server that hides token ids may have been paid for. They are kept in the run's folder (`answers.jsonl`),
and a resumed run asks none of these requests again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from agentfw import Generation, Policy, Request, Settings
from agentfw.episode import Usage
from agentfw.errors import AgentfwError, EndpointError, RequestRefusedError, UnknownNameError, UpstreamError, nearest
from agentfw.policy import Price
from agentfw.request import Forwarded, Passed
from agentfw.runs import Journal, read_journal
from agentfw.settings import OPERATIONAL

from ...protocols import BadRequest, Body, protocol_named
from ...protocols.answers import StreamedReply, read_generation
from ...protocols.chat import write_chat
from ...protocols.completion import table, text
from .endpoint import REFUSES_ONE, Endpoint, Refused, is_listed, key_in
from .forwarding import Forwarder
from .prices import Prices

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_GUESSING = 10.0  # seconds; maximum time to look up the name of a model for a request, or for an error
_OWN_FIELDS = {"messages", "model", "n", "stream", "stream_options", "tools"}

_NOT_SUPPORTED = r"(?is)(?=.*(?:support|only the default|deprecated|not permitted|not allowed|unknown|unrecogni[sz]ed))"
# Fields that a server may reject, with patterns that tell which one its message is about.
_REFUSABLE = {
    "return_token_ids": re.compile(r"\breturn_token_ids\b"),
    "logprobs": re.compile(r"\blogprobs?\b", re.I),
    "seed": re.compile(r"\bseed\b", re.I),
    # A value out of range is the user's mistake and an error.
    "temperature": re.compile(_NOT_SUPPORTED + r".*\btemperature\b"),
    "top_p": re.compile(_NOT_SUPPORTED + r".*\btop_p\b"),
    "max_tokens": re.compile(r"\bmax_completion_tokens\b"),
    "stream_options": re.compile(r"\bstream_options\b"),
    "stream": re.compile(_NOT_SUPPORTED + r".*\bstream(ing)?\b"),
    "tools": re.compile(r"\btools?\b|\btool[_ -]", re.I),
}
_TOO_LONG = re.compile(r"context (length|window|size)|maximum context|max_model_len|is too (long|large)", re.I)


class OpenAISettings(Settings):
    base_url: Annotated[str, OPERATIONAL] = Field(
        "http://localhost:8000/v1", description="Address of the server, including /v1. The default is that of vLLM."
    )
    model: str = Field("", description="Model to use. Default: the first that the server lists.")
    api_key_env: Annotated[str, OPERATIONAL] = Field(
        "OPENAI_API_KEY",
        description="Environment variable with the key; a key itself would be stored in the run's folder. Unless it is "
        "named, a server that isn't OpenAI's, or of this network, gets none.",
    )
    api_key_header: Annotated[str, OPERATIONAL] = Field(
        "authorization",
        pattern=r"^[A-Za-z0-9-]+$",
        description="Header that the key is sent in: `x-api-key` for Anthropic, `api-key` for Azure.",
    )
    protocol: Annotated[str, OPERATIONAL] = Field(
        "chat", description="Protocol that the server is asked in, such as `chat`, `responses` or `messages`."
    )
    apis: Annotated[tuple[str, ...] | None, OPERATIONAL] = Field(
        None,
        description="Protocols that the server speaks besides, such as `responses` or `messages`. Behind the gateway, "
        "their requests are passed on as they are, others are translated. Default: the server is asked.",
    )
    concurrency: Annotated[int, OPERATIONAL] = Field(32, ge=1, description="Maximum number of concurrent requests.")
    deadline: Annotated[float, OPERATIONAL] = Field(
        300.0,
        gt=0,
        description="Timeout of one request including all retries, in seconds. In a stream, the longest silence.",
    )
    retries: Annotated[int, OPERATIONAL] = Field(
        5, ge=0, description="Maximum number of retries if the server is busy or unreachable."
    )
    token_ids: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Whether to request token ids and logprobs. Training needs them. `on`: an error if there are none. "
        "`off`: smaller answers.",
    )
    price: Annotated[Price | None, OPERATIONAL] = Field(
        None,
        description="Prices per million tokens, in any currency: `prompt`, `sampled` and, if there is one, `cached`. "
        "Default: those in the list of the package `genai-prices`, if it knows the model; else the cost is unknown.",
    )
    prices: Annotated[dict[str, Price], OPERATIONAL] = Field(
        default_factory=dict, description="Prices of single models, by name, where they differ from `price`."
    )
    price_list: Annotated[str, OPERATIONAL] = Field(
        "", description="Provider whose list prices hold, such as `openai`. Default: the one with this address."
    )
    extra_body: dict[str, Any] = Field(
        default_factory=dict, description="Additional fields of the request, for options of this server."
    )

    @field_validator("base_url")
    @classmethod
    def _address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must start with http:// or https:// and name a host")
        if parts.username or parts.password:
            raise ValueError("must not contain a password; name its environment variable in api_key_env")
        _ = parts.port  # raises a ValueError if it is not a port
        return value.rstrip("/")

    @field_validator("protocol", "apis")
    @classmethod
    def _protocols(cls, value: Any) -> Any:
        for name in [value] if isinstance(value, str) else value or ():
            try:
                protocol_named(name)
            except UnknownNameError as error:
                raise ValueError(f"{error.message}; {error.fix}") from None
        return value

    @field_validator("extra_body")
    @classmethod
    def _extra(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := sorted(_OWN_FIELDS & value.keys()):
            raise ValueError(f"must not contain {', '.join(taken)}, which the policy sets")
        return value


class OpenAIPolicy(Policy):
    """A model behind an OpenAI-compatible API."""

    forwards = True
    follows_schemas = True

    def __init__(self, settings: OpenAISettings) -> None:
        self.settings = settings
        self._unnamed = "" if "api_key_env" in settings.model_fields_set else settings.base_url
        self._prices = Prices(settings.price, settings.prices, settings.price_list, settings.base_url)
        self.price = self._prices.of(settings.model)
        self._model, self._protocol = settings.model, protocol_named(settings.protocol)
        self._refused: set[str] = set()
        self._kept: _KeptAnswers | None = None
        self._endpoint = Endpoint(
            settings.base_url,
            concurrency=settings.concurrency,
            deadline=settings.deadline,
            retries=settings.retries,
            key=lambda: key_in(settings.api_key_env, default_for=self._unnamed),
            key_header=settings.api_key_header,
            headers=self._protocol.headers,
        )
        self._forwarder = Forwarder(
            self._endpoint,
            self._protocol,
            apis=settings.apis,
            extra_body=settings.extra_body,
            wants_tokens={"on": True, "off": False}.get(settings.token_ids),
        )

    def open(self, folder: Path) -> None:
        self._kept = _KeptAnswers(folder / "answers.jsonl")

    async def generate(self, request: Request) -> Generation:
        return await self._answer(request, None)

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        said = ""

        def hear(choice: Mapping[str, Any]) -> None:
            nonlocal said
            if new := text(table(choice.get("delta")).get("content")):
                said += new
                tell(new)

        generation = await self._answer(request, StreamedReply(self._protocol.reader, hear))
        if generation.text.startswith(said) and generation.text != said:
            tell(generation.text[len(said) :])
        return generation

    async def speaks(self, protocol: str, model: str = "") -> bool:
        return await self._forwarder.speaks(protocol, self.settings.model or model)

    async def forward(self, request: Request, forwarded: Forwarded) -> Passed:
        # As many at once as come: `concurrency` is for the requests of a run, and a gateway counts its own.
        # Without a conversation, it takes another kind of model.
        is_ours = bool(self.settings.model and forwarded.protocol) and protocol_named(forwarded.protocol).converses
        if not forwarded.protocol or (forwarded.model and not is_ours):
            return await self._forwarder.forward(request, forwarded, forwarded.model)
        try:
            model = await self._named(asyncio.get_running_loop().time() + min(_GUESSING, self.settings.deadline))
        except (EndpointError, Refused) as error:
            logger.warning("%s didn't list its models", self.settings.base_url, exc_info=True)
            status = error.status if isinstance(error, Refused) else 0
            words = f"refuses to list its models: HTTP {status}" if status else "can't be reached, or lists no models"
            hint = "; its base URL may lack /v1" if status == 404 else ""
            raise UpstreamError(f"the model's server {words}{hint}", 502) from None
        return await self._forwarder.forward(request, forwarded, model)

    async def _answer(self, request: Request, streamed: StreamedReply | None) -> Generation:
        names = {action.name for action in request.actions}
        if self._kept is not None and (kept := self._kept.find(self._asked(request))) is not None:
            reply, repeated = kept
            generation = self._marked(read_generation(reply, names, native="in_text" not in reply))
            generation.repeated = repeated
            return generation
        async with self._endpoint.slot() as until:
            try:
                model = await self._named(until)
                generation = await self._completed(request, model, until, streamed)
            except Refused as refusal:
                raise await self._explained(refusal) from None
        generation.version = generation.version or model
        if self.settings.token_ids == "on" and not (generation.token_ids and generation.logprobs):
            raise EndpointError(
                f"{self.settings.base_url} returned no token ids with logprobs, but token_ids is on",
                fix="use a server that knows return_token_ids, such as a recent vLLM, or set token_ids to auto",
            )
        return generation

    def priced(self, usage: Usage, *models: str) -> Usage:
        return replace(usage, cost=self._prices.cost(usage, *models, self.settings.model))

    async def close(self) -> None:
        await self._endpoint.close()
        if self._kept is not None:
            self._kept.close()

    # -- what is asked -------------------------------------------------------------------------------------------------

    async def _named(self, until: float) -> str:
        async with self._endpoint.lock():
            if not self._model:
                if not (names := await self._models(until)):
                    words = f"{self.settings.base_url} lists no models"
                    raise EndpointError(words, fix="load one, or set policy.model")
                self._model = names[0]
        return self._model

    async def _models(self, until: float) -> list[str]:
        return await self._endpoint.ask("/models", None, self._protocol.models_in, until)

    async def _completed(
        self, request: Request, model: str, until: float, streamed: StreamedReply | None
    ) -> Generation:
        """Send a request. Repeat it without the fields that the server rejects."""
        names = {action.name for action in request.actions}
        without: dict[str, str] = {}  # rejected fields, and the server's messages
        while True:
            body = self._body(request, model, self._refused | without.keys(), streamed is not None)
            native = "tools" in body

            def read(given: object, native: bool = native) -> tuple[Generation, dict[str, Any]]:
                came = streamed is not None and streamed.came
                reply = cast(dict[str, Any], given) if came else self._protocol.read_answer(given)
                return read_generation(reply, names, native=native), reply

            try:
                generation, reply = await self._asked_of_server(body, model, read, until, streamed)
            except Refused as refusal:
                name = self._unknown(refusal, body)
                if name is None or (name == "tools" and not await self._refuses_any_tools(model, until)):
                    raise
                without[name] = refusal.words
            else:
                # Only now: if the request fails anyway, the message was about something else.
                for name in without.keys() - self._refused:
                    logger.warning("%s rejects %s, so it is omitted: %s", self.settings.base_url, name, without[name])
                self._refused |= without.keys()
                if self._kept is not None and not generation.token_ids:
                    await self._kept.keep(self._asked(request), reply if native else {**reply, "in_text": True})
                generation.constrained = request.schema is not None
                return self._marked(generation)

    async def _asked_of_server(
        self,
        chat: dict[str, Any],
        model: str,
        read: Callable[[object], Answer],
        until: float,
        streamed: StreamedReply | None = None,
    ) -> Answer:
        protocol = self._protocol
        try:
            body = protocol.write_request(Body(chat)) | self.settings.extra_body
            streams = chat.get("stream") and protocol.stream_path
            path = protocol.address(protocol.stream_path if streams else protocol.path, model)
        except BadRequest as problem:
            raise RequestRefusedError(problem.message, fix="leave it out, or set policy.protocol to another") from None
        return await self._endpoint.ask(path, body, read, until, streamed=streamed)

    async def _refuses_any_tools(self, model: str, until: float) -> bool:
        """Whether the server refuses tools in a request of our own too, and not about certain tools."""
        function = {"name": "ping", "description": "", "parameters": {"type": "object", "properties": {}}}
        asked = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
        tools = {"tools": [{"type": "function", "function": function}]}
        try:
            await self._asked_of_server({**asked, **tools}, model, lambda reply: reply, until)
        except Refused as refusal:
            return self._unknown(refusal, tools) == "tools"
        return False

    def _marked(self, generation: Generation) -> Generation:
        """The generation with the sampling of the server, where it rejected the request's."""
        if "temperature" in self._refused:
            generation.temperature = 1.0
        if "top_p" in self._refused:
            generation.top_p = 1.0
        return generation

    def _asked(self, request: Request) -> str:
        """A digest that identifies a request within a run."""
        task = [request.task.split, request.task.user, request.task.query, request.task.id]
        chat = write_chat(request, native=True)
        asked = {"task": task, "model": self.settings.model, **chat, **self.settings.extra_body}
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def _body(self, request: Request, model: str, without: set[str], streams: bool) -> dict[str, Any]:
        body = {"model": model, **write_chat(request, native="tools" not in without)}
        if self.settings.token_ids != "off" and self._protocol.gives_tokens:
            body |= {"logprobs": True, "return_token_ids": True}
        if "max_tokens" in without and "max_tokens" in body:
            body["max_completion_tokens"] = body.pop("max_tokens")
        if streams and "stream" not in without:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if not self._protocol.has_seed:
            body.pop("seed", None)
        return {name: value for name, value in body.items() if name not in without}

    def _unknown(self, refusal: Refused, body: Mapping[str, Any]) -> str | None:
        """The rejected field that can be omitted, if there is one."""
        if refusal.status not in (400, 403, 422) or _TOO_LONG.search(refusal.words):
            return None
        wanted = {"return_token_ids", "logprobs"} if self.settings.token_ids == "on" else set()
        wanted |= self.settings.extra_body.keys()  # fields that the user set must be rejected visibly
        told = (name for name, pattern in _REFUSABLE.items() if pattern.search(refusal.words))
        return next((name for name in told if name in body and name not in wanted), None)

    async def _explained(self, refusal: Refused) -> AgentfwError:
        name, status = self.settings.api_key_env, refusal.status
        if status in (401, 403):
            if not name:
                fix = "set api_key_env to the environment variable with the key"
            elif not os.environ.get(name):
                fix = f"the environment variable {name} is not set; it should hold the key"
            elif self._unnamed and not is_listed(self._unnamed):
                fix = f"{name} goes to OpenAI only, unless you name it: --set policy.api_key_env={name}"
            else:
                fix = f"check the key in the environment variable {name}"
        elif status == 404:
            try:
                until = asyncio.get_running_loop().time() + min(_GUESSING, self.settings.deadline)
                names = await self._models(until)
                guess, shown = nearest(self._model, names), ", ".join(names[:10]) or "none"
                meant = f"did you mean {guess!r}? " if guess else ""
                fix = f"the model {self._model!r} doesn't exist; {meant}known: {shown}"
            except (EndpointError, Refused):
                fix = "check that base_url ends in /v1"
        elif _TOO_LONG.search(refusal.words):
            fix = "prompt and max_tokens exceed the model's context: lower window or max_tokens, or serve a longer one"
        else:
            fix = "the server doesn't support this request; see its log"
        kind = RequestRefusedError if status in REFUSES_ONE else EndpointError
        return kind(f"{refusal.url} refused: HTTP {status}: {refusal.words}", fix=fix)


class _KeptAnswers:
    """Answers by what was asked, so that a resumed run asks nothing again. The file is made with the first of them.

    An interrupted episode is played again from its beginning. Its requests are then the same, up to where it stopped.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._journal: Journal | None = None
        self._replies: dict[str, Any] = {record["asked"]: record["reply"] for record in read_journal(path)}
        self._given = set[str]()

    def find(self, digest: str) -> tuple[dict[str, Any], bool] | None:
        """The reply to this request, if it was answered, and whether this process has had it before."""
        if digest not in self._replies:
            return None
        repeated = digest in self._given
        self._given.add(digest)
        return self._replies[digest], repeated

    async def keep(self, digest: str, reply: dict[str, Any]) -> None:
        if self._journal is None:
            self._journal = Journal.open(self._path)
        self._replies[digest] = reply
        self._given.add(digest)
        await self._journal.commit({"asked": digest, "reply": reply})

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None
