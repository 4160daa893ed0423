"""The words and forms of English statements, as they are in english.json."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

__all__ = ["WORDS", "words_of"]

WORDS: dict[str, Any] = json.loads(files("agentfw_memory.graph.facts").joinpath("english.json").read_text("utf-8"))
"""Under `forms`, `<value>` stands for any few words, `<place>` for a name and `<a>` for an article."""


def words_of(name: str) -> frozenset[str]:
    """Return the words of a list."""
    return frozenset(WORDS[name].split())
