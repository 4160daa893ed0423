"""Asks a model on an OpenAI-compatible server what of a user's own sentences is worth remembering.

All sentences of a message are one request, with an answer in the form of a JSON schema. Equal messages are asked about
once. The skill graph checks the answer: a statement with words that weren't said is left out, and if the server fails,
takes too long, answers in another form, or the tokens are used up, the rules decide instead.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from ..policies.http.endpoint import key_in

__all__ = ["ModelListener"]

PROMPT = (Path(__file__).parent / "listening.md").read_text("utf-8")
MAXIMUM_CACHED = 1_000
LONGEST_ANSWER = 1_000
"""Maximum number of tokens of an answer, so that a model that never ends doesn't use up all that is allowed."""
LARGEST_ANSWER = 1_000_000
"""Maximum number of bytes of an answer."""
SCHEMA = {
    "type": "object",
    "properties": {"statements": {"type": "array", "items": {"type": "string"}}},
    "required": ["statements"],
    "additionalProperties": False,
}


class ModelListener:
    """A listener of a skill graph. `tokens` says what it has used so far."""

    def __init__(self, base_url: str, model: str, key_env: str, *, timeout: float, most_tokens: int) -> None:
        self._address, self._model, self._key_env = f"{base_url.rstrip('/')}/chat/completions", model, key_env
        self._timeout, self._most_tokens = timeout, most_tokens
        self._kept: OrderedDict[tuple[str, ...], list[str]] = OrderedDict()
        self.tokens = 0

    def __call__(self, sentences: Sequence[str], user: str) -> list[str]:
        asked = (user, *sentences)
        if asked not in self._kept:
            self._kept[asked] = self._ask(sentences, user)
            if len(self._kept) > MAXIMUM_CACHED:
                self._kept.popitem(last=False)
        return self._kept[asked]

    def _ask(self, sentences: Sequence[str], user: str) -> list[str]:
        if self._most_tokens and self.tokens >= self._most_tokens:
            raise RuntimeError(f"{self.tokens} tokens are used, of {self._most_tokens} allowed")
        messages = [
            {"role": "system", "content": PROMPT.replace("{user}", user)},
            {"role": "user", "content": "\n".join(sentences)},
        ]
        form = {"type": "json_schema", "json_schema": {"name": "statements", "strict": True, "schema": SCHEMA}}
        longest = min(LONGEST_ANSWER, self._most_tokens - self.tokens) if self._most_tokens else LONGEST_ANSWER
        body = {
            "model": self._model,
            "messages": messages,
            "temperature": 0,
            "max_tokens": longest,
            "response_format": form,
        }
        key = key_in(self._key_env)
        headers = {"authorization": f"Bearer {key}"} if key else {}
        whole: dict[str, Any] = json.loads(self._posted(body, headers))
        self.tokens += int((whole.get("usage") or {}).get("total_tokens", 0))
        statements = json.loads(whole["choices"][0]["message"]["content"])["statements"]
        if not isinstance(statements, list) or not all(isinstance(one, str) for one in statements):
            raise TypeError("the statements are no list of texts")
        return statements

    def _posted(self, body: dict[str, Any], headers: dict[str, str]) -> bytes:
        """Return the answer. httpx's timeout is on silence, so a server that answers byte by byte would never end."""
        end, read = time.monotonic() + self._timeout, bytearray()
        with httpx.stream("POST", self._address, json=body, headers=headers, timeout=self._timeout) as answer:
            answer.raise_for_status()
            for part in answer.iter_bytes():
                read += part
                if time.monotonic() > end:
                    raise TimeoutError(f"no whole answer within {self._timeout:g} s")
                if len(read) > LARGEST_ANSWER:
                    raise ValueError(f"the answer has more than {LARGEST_ANSWER:,} bytes")
        return bytes(read)
