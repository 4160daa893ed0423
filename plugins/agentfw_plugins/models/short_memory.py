"""Selects the part of a conversation that a model with a short memory reads: its end.

Prompts for such a model, for inference and for training, must be made from these messages. A model folder declares it
with `"agentfw_reads"` in its tokenizer_config.json: `last_message` for the last message that it received, `last_answer`
for its own last answer as well.

    >>> from agentfw.episode import Message
    >>> said = [Message("user", "1"), Message("assistant", "a"), Message("tool", "done"), Message("user", "2")]
    >>> [message.content for message in remembered(said, "last_message")]
    ['2']
    >>> [message.content for message in remembered(said, "last_answer")]
    ['a', '2']
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from agentfw import Message

__all__ = ["ShortMemory", "remembered", "short_memory_of"]

ShortMemory = Literal["last_message", "last_answer"]


def short_memory_of(folder: Path) -> ShortMemory | None:
    """What the model in a folder reads. None if it reads whole conversations."""
    path = folder / "tokenizer_config.json"
    named = json.loads(path.read_text("utf-8")).get("agentfw_reads") if path.is_file() else None
    return named if named in get_args(ShortMemory) else None


def remembered(messages: Sequence[Message], memory: ShortMemory) -> list[Message]:
    """The last user message, and before it the model's own last answer if that is read too."""
    asked = max((place for place, each in enumerate(messages) if each.role == "user"), default=None)
    if asked is None:
        return []
    answers = [each for each in messages[:asked] if each.role == "assistant"] if memory == "last_answer" else []
    # Its calls are in its text.
    return [*(replace(each, calls=()) for each in answers[-1:]), messages[asked]]
