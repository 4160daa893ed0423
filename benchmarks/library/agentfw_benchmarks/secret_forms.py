"""The forms in which a secret may be written, or sent."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "url": lambda key: quote(key, safe=""),
    "path": quote,
    "form": quote_plus,
    "url twice": lambda key: quote(quote(key, safe=""), safe=""),
    "json": json.dumps,
    "json of unicode": lambda key: json.dumps(key, ensure_ascii=False),
    "json twice": lambda key: json.dumps(json.dumps(key)),
    "html": html.escape,
    "json in html": lambda key: html.escape(json.dumps(key)),
    "repr": repr,
    "repr of bytes": lambda key: repr(key.encode()),
    "base64": base64_of,
    "basic authorization": lambda key: base64_of(f"ada:{key}"),
    "url-safe base64": lambda key: base64.urlsafe_b64encode(f"x{key}".encode()).decode(),
}
