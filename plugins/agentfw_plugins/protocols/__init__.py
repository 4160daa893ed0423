"""The APIs that the gateway speaks, by their paths below `/v1/`. Another one is a module here and an entry below."""

from __future__ import annotations

from .chat_completions import ChatCompletions
from .completions import Completions
from .messages import Messages
from .protocol import Dialect
from .responses import Responses

__all__ = ["DIALECTS"]

DIALECTS: dict[str, Dialect] = {
    "chat/completions": ChatCompletions(),
    "completions": Completions(),
    "responses": Responses(),
    "messages": Messages(),
}
