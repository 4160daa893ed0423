"""The writer that asks a model, through anything with one method `complete(messages, schema) -> str`.

One request for each message, or for each batch of an import. What the model answers is checked in writer.py; what it
can't answer, is too slow for or has no budget for is an exception here, and the caller keeps what was said.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Protocol

from agentfw_memory.errors import SkillGraphError

from .writer import ACTIONS, Said

_TEXT = {"type": "string"}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "messages": {
            "type": "array",
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "action": {"type": "string", "enum": list(ACTIONS)},
                        **dict.fromkeys(("text", "evidence", "id", "about", "since"), _TEXT),
                        "shared": {"type": "boolean"},
                        "always": {"type": "boolean"},
                    },
                    "required": ["action", "text", "evidence", "id", "about", "since", "shared", "always"],
                    "additionalProperties": False,
                },
            },
        }
    },
    "required": ["messages"],
    "additionalProperties": False,
}


class WriterError(SkillGraphError):
    """The writer's model gave no answer that can be used."""


class CompletingModel(Protocol):
    """A model that answers in a form."""

    async def complete(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> str:
        """Return the answer to a conversation as JSON of this schema."""


class ModelWriter:
    """Asks a model. `asked` is the number of requests so far, and `characters` the size of requests and answers."""

    def __init__(self, model: CompletingModel, *, timeout: float = 30.0, most_characters: int = 0) -> None:
        """`most_characters` is the budget of requests and answers together, 0 for no limit."""
        self._model, self._timeout, self._most = model, timeout, most_characters
        self._prompt = files("agentfw_memory.writing").joinpath("prompt.md").read_text("utf-8")
        self.asked = self.characters = 0

    async def write(self, sayings: Sequence[Said]) -> Sequence[object]:
        task = json.dumps({"messages": [_told(one) for one in sayings]}, ensure_ascii=False)
        messages = [{"role": "system", "content": self._prompt}, {"role": "user", "content": task}]
        size = sum(len(one["content"]) for one in messages)
        if self._most and self.characters + size > self._most:
            raise WriterError(
                f"the budget of {self._most:,} characters is used up", fix="raise the budget, or go on without a model"
            )
        self.asked, self.characters = self.asked + 1, self.characters + size
        try:
            answer = await asyncio.wait_for(self._model.complete(messages, SCHEMA), self._timeout)
        except TimeoutError:
            raise WriterError(f"no answer within {self._timeout:g} s", fix="raise the timeout") from None
        self.characters += len(answer)
        try:
            found = json.loads(answer)["messages"]
        except (ValueError, TypeError, KeyError):
            found = None
        if not isinstance(found, list) or len(found) != len(sayings):
            raise WriterError("the model answered in another form", fix="use a model with structured output")
        return found


def _told(said: Said) -> dict[str, Any]:
    return {
        "date": datetime.fromtimestamp(said.at, UTC).date().isoformat(),
        "user": said.user,
        "before": [{"role": role, "text": text} for role, text in said.before],
        "own_sentences": list(said.own),
        "memories": [
            {
                "id": one.id,
                "text": one.text,
                "owner": one.owner,
                "shared": one.shared,
                "since": datetime.fromtimestamp(one.since, UTC).date().isoformat(),
            }
            for one in said.known
        ],
    }
