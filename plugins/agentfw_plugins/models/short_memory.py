"""Selects the part of a conversation that a model with a short memory reads: its end.

Prompts for such a model, for inference and for training, must be made from these messages. A model folder declares it
with `"agentfw_reads"` in its tokenizer_config.json: `last_message` for the last message that it received, `last_answer`
for the end of its own last answer as well. That is its last call and what it wrote before it, back to the call before.

In a session, what memories recall stands in the system message. It is moved to the last message, where such models have
learned to find it.

    >>> from agentfw.episode import Message
    >>> answer = "Noted.<tool_call>{}</tool_call>So B.<tool_call>{}</tool_call>"
    >>> said = [Message("user", "1"), Message("assistant", answer), Message("tool", "done"), Message("user", "2")]
    >>> [message.content for message in remembered(said, "last_message")]
    ['2']
    >>> [message.content for message in remembered(said, "last_answer")]
    ['So B.<tool_call>{}</tool_call>', '2']
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
_CALL_ENDS = "</tool_call>"
_RECALLED = "You remember:\n"
"""How what was recalled begins, in all turns."""


def short_memory_of(folder: Path) -> ShortMemory | None:
    """What the model in a folder reads. None if it reads whole conversations."""
    path = folder / "tokenizer_config.json"
    named = json.loads(path.read_text("utf-8")).get("agentfw_reads") if path.is_file() else None
    return named if named in get_args(ShortMemory) else None


def remembered(messages: Sequence[Message], memory: ShortMemory) -> list[Message]:
    """The last user message, and before it the end of the model's own last answer if that is read too."""
    asked = max((place for place, each in enumerate(messages) if each.role == "user"), default=None)
    if asked is None:
        return []
    answers = [each for each in messages[:asked] if each.role == "assistant"] if memory == "last_answer" else []
    last = replace(messages[asked], content=f"{_recalled(messages[:asked])}{messages[asked].content}")
    # Its calls are in its text.
    return [*(replace(each, content=_end(each.content), calls=()) for each in answers[-1:]), last]


def _recalled(messages: Sequence[Message]) -> str:
    """The recollections at the end of the system message."""
    system = next((each.content for each in messages if each.role == "system"), "")
    _, begins, items = system.rpartition(_RECALLED)
    return f"{begins}{items}\n" if begins else ""


def _end(answer: str) -> str:
    """The last call and what stands before it, back to the call before."""
    before, end, _ = answer.rpartition(_CALL_ENDS)
    _, _, thought = before.rpartition(_CALL_ENDS)
    return f"{thought.lstrip()}{end}" if end else answer
