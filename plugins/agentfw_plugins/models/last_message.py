"""What a model of a short memory reads of a conversation: the last message that it was sent, and nothing before.

The one rule: whoever makes a prompt for such a model, to run it or to train it, takes the messages from here. A model
folder says that it is one by `"agentfw_reads": "last_message"` in its tokenizer_config.json.

    >>> from agentfw.episode import Message
    >>> said = [Message("system", "..."), Message("user", "1"), Message("assistant", "a"), Message("user", "2")]
    >>> [message.content for message in last_message(said)]
    ['2']
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from agentfw.episode import Message

__all__ = ["last_message", "reads_last_message"]


def reads_last_message(folder: Path) -> bool:
    path = folder / "tokenizer_config.json"
    return path.is_file() and json.loads(path.read_text("utf-8")).get("agentfw_reads") == "last_message"


def last_message(messages: Sequence[Message]) -> list[Message]:
    """The last message of a user, if there is one."""
    return [each for each in messages if each.role == "user"][-1:]
