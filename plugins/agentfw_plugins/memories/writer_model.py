"""The model of a skill graph's writer, on an OpenAI-compatible server.

The writer sends one request for each message, and gets an answer in the form of a JSON schema. It checks the answer
itself; what fails here, such as a server that is away or the tokens that are used up, makes it keep what was said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx

from agentfw.episode import Usage

from ..policies.http.endpoint import key_in
from ..policies.http.prices import Prices

LONGEST_ANSWER = 2_000
"""Maximum number of tokens of an answer, so that a model that never ends doesn't use up all that is allowed."""
LARGEST_ANSWER = 1_000_000
"""Maximum number of bytes of an answer."""


class ServerModel:
    """A model that answers in a form: by default the first that the server lists. `tokens` says what it used so far."""

    def __init__(self, base_url: str, model: str, key_env: str, *, timeout: float, most_tokens: int) -> None:
        self._url, self._model, self._key_env = base_url.rstrip("/"), model, key_env
        self._timeout, self._most_tokens = timeout, most_tokens
        self._prices = Prices(price=None, own={}, provider="", url=base_url)
        self.tokens, self._untold = 0, Usage(0, 0, 0)

    @property
    def name(self) -> str:
        return self._model

    def taken(self) -> Usage:
        """Return what was used since the last call."""
        found, self._untold = self._untold, Usage(0, 0, 0)
        return found

    async def complete(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> str:
        if self._most_tokens and self.tokens >= self._most_tokens:
            raise RuntimeError(f"{self.tokens} tokens are used, of {self._most_tokens} allowed")
        key = key_in(self._key_env)
        headers = {"authorization": f"Bearer {key}"} if key else {}
        async with httpx.AsyncClient(timeout=self._timeout, headers=headers) as client:
            return await self._completed(client, messages, schema)

    async def _completed(
        self, client: httpx.AsyncClient, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]
    ) -> str:
        if not self._model:
            listed = (await client.get(f"{self._url}/models")).raise_for_status().json()
            self._model = str(listed["data"][0]["id"])
        form = {"type": "json_schema", "json_schema": {"name": "decisions", "strict": True, "schema": schema}}
        longest = min(LONGEST_ANSWER, self._most_tokens - self.tokens) if self._most_tokens else LONGEST_ANSWER
        body = {
            "model": self._model,
            "messages": list(messages),
            "temperature": 0,
            "max_tokens": longest,
            "response_format": form,
        }
        read = bytearray()
        async with client.stream("POST", f"{self._url}/chat/completions", json=body) as answer:
            answer.raise_for_status()
            async for part in answer.aiter_bytes():
                read += part
                if len(read) > LARGEST_ANSWER:
                    raise ValueError(f"the answer has more than {LARGEST_ANSWER:,} bytes")
        whole: dict[str, Any] = json.loads(read)
        counted = whole.get("usage") or {}
        usage = Usage(int(counted.get("prompt_tokens", 0)), 0, int(counted.get("completion_tokens", 0)))
        self._untold += replace(usage, cost=self._prices.cost(usage, self._model))
        self.tokens += usage.tokens or 0
        return str(whole["choices"][0]["message"]["content"])
