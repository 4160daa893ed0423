"""What a model of a short memory reads of a conversation: its own last answer, and what it was told since.

The one rule: whoever makes a prompt for such a model, to run it or to train it, takes the messages from here. A model
folder says that it is one by `"agentfw_reads": "last_exchange"` in its tokenizer_config.json.

    >>> from agentfw.episode import Message
    >>> said = [Message("system", "..."), Message("user", "1"), Message("assistant", "a"), Message("tool", "accepted"),
    ...         Message("user", "2")]
    >>> [message.content for message in last_exchange(said)]
    ['a', '2']
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from agentfw.episode import Message

__all__ = ["last_exchange", "reads_last_exchange"]


def reads_last_exchange(folder: Path) -> bool:
    path = folder / "tokenizer_config.json"
    return path.is_file() and json.loads(path.read_text("utf-8")).get("agentfw_reads") == "last_exchange"


def last_exchange(messages: Sequence[Message]) -> list[Message]:
    """The last answer, as text alone, and the last message of a user."""
    told = [Message(each.role, each.content) for each in messages if each.role in ("assistant", "user")]
    last = max((place for place, each in enumerate(told) if each.role == "user"), default=len(told) - 1)
    answers = [each for each in told[:last] if each.role == "assistant"]
    return [*answers[-1:], *told[last : last + 1]]
