"""A tokenizer that knows the words of some lessons, and nothing else.

tokenizer = word_tokenizer(lessons, r" ?\\w+|[^\\w]")
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..small_chat import END, ROLES
from .training import Lesson

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["ABOUT", "word_tokenizer"]

_UNKNOWN = "<|unknown|>"
ABOUT = {"agentfw_reads": "last_message", "unk_token": _UNKNOWN}
"""Entries about this tokenizer in the configuration of a model."""


def word_tokenizer(lessons: Sequence[Lesson], pieces: str) -> Tokenizer:
    """The words of the lessons, and all printable characters. `pieces` is the pattern of a word."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    controls = [END, *ROLES.values(), "<|pad|>", _UNKNOWN]
    said = {piece for messages, answer in lessons for piece in re.findall(pieces, f"{messages[-1].content}\n{answer}")}
    words = [*controls, *sorted(said | set(string.printable))]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token=_UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pieces), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in controls])
    return tokenizer
