"""Any server that speaks OpenAI's chat completions, as a policy: vLLM, llama.cpp, Ollama, a hosted model.

The one rule: a request ends. It is tried again while that can help, for at most `deadline` seconds, and then it is an
error that says where, how often and what came back. What the *model* gets wrong is data and never an error.

    agentfw run calendar --policy openai --set policy.base_url=http://localhost:8000/v1

Token ids and logprobs, which training needs, are asked for the way vLLM gives them (`return_token_ids`). A server that
refuses a field it doesn't know is asked again without it, and not troubled with it afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from agentfw import Settings
from agentfw.errors import AgentfwError, EndpointError, RequestRefusedError, nearest
from agentfw.policy import Generation, Policy, Request

from .endpoint import Endpoint, Malformed, Refused, key_in
from .openai_wire import chat_body, read_answer

__all__ = ["OpenAIPolicy", "OpenAISettings"]

logger = logging.getLogger(__name__)

_GUESSING = 10.0  # seconds; an error is told with a guess if that takes no longer
_THIS_ONE = {400, 413, 422}  # refusals that are about what was asked; another request may be taken
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


class OpenAIPolicy(Policy):
    """A model behind an OpenAI-compatible address."""

    def __init__(self, settings: OpenAISettings) -> None:
        self.settings = settings
        self._model = settings.model
        self._refused: set[str] = set()
        self._endpoint = Endpoint(
            settings.base_url,
            concurrency=settings.concurrency,
            deadline=settings.deadline,
            retries=settings.retries,
            key=lambda: key_in(settings.api_key_env),
        )

    async def generate(self, request: Request) -> Generation:
        async with self._endpoint.slot() as until:
            try:
                model = await self._named(until)
                generation = await self._completed(request, model, until)
            except Refused as refusal:
                raise await self._explained(refusal) from None
        generation.version = generation.version or model
        if self.settings.token_ids == "on" and not (generation.token_ids and generation.logprobs):
            raise EndpointError(
                f"{self.settings.base_url} gave no token ids with their logprobs, and token_ids is on",
                fix="use a server that knows return_token_ids, such as a recent vLLM, or set token_ids to auto",
            )
        return generation

    async def close(self) -> None:
        await self._endpoint.close()

    # -- what is asked -------------------------------------------------------------------------------------------------

    async def _named(self, until: float) -> str:
        """The model to ask."""
        async with self._endpoint.lock():
            if not self._model:
                names = await self._models(until)
                if not names:
                    raise EndpointError(
                        f"{self.settings.base_url} lists no models", fix="load one, or name one in model"
                    )
                self._model = names[0]
        return self._model

    async def _models(self, until: float) -> list[str]:
        def read(reply: object) -> list[str]:
            entries = reply.get("data") if isinstance(reply, dict) else None
            if not isinstance(entries, list):
                raise Malformed("the answer is no list of models")
            return [str(entry["id"]) for entry in entries if isinstance(entry, dict) and entry.get("id")]

        return await self._endpoint.ask("/models", None, read, until)

    async def _completed(self, request: Request, model: str, until: float) -> Generation:
        """Ask, and ask again without whatever the server refuses to know."""
        names = {action.name for action in request.actions}
        without: dict[str, str] = {}  # fields, and in which words they were refused
        while True:
            body = self._body(request, model, self._refused | without.keys())
            try:
                generation = await self._endpoint.ask(
                    "/chat/completions", body, lambda reply: read_answer(reply, names), until
                )
            except Refused as refusal:
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

    def _unknown(self, refusal: Refused, body: Mapping[str, Any]) -> str | None:
        """The field that a refusal is about and that can be left out, if there is one."""
        if refusal.status not in (400, 403, 422) or _TOO_LONG.search(refusal.words):
            return None
        wanted = {"return_token_ids", "logprobs"} if self.settings.token_ids == "on" else set()
        wanted |= self.settings.extra_body.keys()  # whoever wrote these wants to hear of it
        for name, pattern in _REFUSABLE.items():
            if name in body and name not in wanted and pattern.search(refusal.words):
                return name
        return None

    async def _explained(self, refusal: Refused) -> AgentfwError:
        """A refusal as an error that says what to check."""
        name, status = self.settings.api_key_env, refusal.status
        if status in (401, 403):
            fix = (
                f"is the key in the environment variable {name} the right one?"
                if name
                else "name the key's environment variable in api_key_env"
            )
            if name and not os.environ.get(name):
                fix = f"the environment variable {name} is not set; it should hold the key"
        elif status == 404:
            fix = await self._nearest_model()
        elif _TOO_LONG.search(refusal.words):
            fix = "prompt and max_tokens exceed the model's context: lower window or max_tokens, or serve a longer one"
        else:
            fix = "the request is not what this server expects; what does its log say?"
        kind = RequestRefusedError if status in _THIS_ONE else EndpointError
        return kind(f"{refusal.url} refused: HTTP {status}: {refusal.words}", fix=fix)

    async def _nearest_model(self) -> str:
        until = asyncio.get_running_loop().time() + min(_GUESSING, self.settings.deadline)
        try:
            names = await self._models(until)
        except (EndpointError, Refused):
            return "does base_url end in /v1?"
        guess = nearest(self._model, names)
        shown = ", ".join(names[:10]) or "none"
        return (
            f"the model {self._model!r} isn't there; "
            + (f"did you mean {guess!r}? " if guess else "")
            + f"known: {shown}"
        )
