"""Shows what others wrote to a judge, so that none of it can be taken for the question itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b

__all__ = ["Message", "cut", "digest", "line", "tagged", "whole"]

Message = Mapping[str, object]
"""One message of a conversation: `role`, `content`, and other keys such as calls."""


def line(message: Message) -> str:
    """Return a message as one line of JSON. Values that JSON can't hold become strings."""
    rest = {name: value for name, value in message.items() if name not in ("role", "content")}
    shown = {"role": message.get("role", ""), "content": message.get("content", ""), **rest}
    return whole(json.dumps(shown, ensure_ascii=False, default=str))


def whole(text: str) -> str:
    """Replace lone surrogates, which servers reject."""
    return text.encode("utf-8", "replace").decode("utf-8")


def cut(text: str, longest: int) -> str:
    """Keep only the start and the end of a long text."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters are left out here ...]\n{text[-half:]}"


def tagged(name: str, key: str, text: str, number: int | None = None) -> str:
    opening = f"{name}-{key}" if number is None else f'{name}-{key} id="{number}"'
    return f"<{opening}>\n{text}\n</{name}-{key}>"


def digest(text: str) -> str:
    return blake2b(text.encode("utf-8"), digest_size=16).hexdigest()
