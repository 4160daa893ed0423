"""Requests that nobody in their right mind would send, made of right ones."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

_FUNCTION = {"name": "weather", "description": "d", "parameters": {"type": "object", "properties": {}}}
_CALL = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"a": 1}'}}
_SEEDS: list[tuple[str, dict[str, Any]]] = [
    (
        "/v1/chat/completions",
        {
            "model": "any",
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": [{"type": "text", "text": "weather in Rome?"}]},
                {"role": "assistant", "content": None, "tool_calls": [_CALL]},
                {"role": "tool", "tool_call_id": "c", "content": "sunny"},
            ],
            "tools": [{"type": "function", "function": _FUNCTION}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0.5,
            "max_tokens": 5,
            "stop": ["x"],
            "user": "ada",
        },
    ),
    (
        "/v1/responses",
        {
            "model": "any",
            "instructions": "s",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "sunny"},
            ],
            "tools": [{"type": "function", **_FUNCTION}],
            "stream": True,
        },
    ),
    (
        "/v1/messages",
        {
            "model": "any",
            "max_tokens": 5,
            "system": "s",
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "weather", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "sunny"}]},
            ],
            "tools": [{"name": "weather", "input_schema": {"type": "object"}}],
            "stream": True,
        },
    ),
    (
        "/v1/completions",
        {"model": "any", "prompt": "Once", "max_tokens": 5, "stop": ["x"], "stream": True, "echo": False, "n": 1},
    ),
    ("/v1/embeddings", {"model": "any", "input": ["tea", "rain"], "encoding_format": "float", "user": "ada"}),
    (
        "/v1/messages/count_tokens",
        {"model": "any", "messages": [{"role": "user", "content": "hi"}], "tools": [{"name": "w", "input_schema": {}}]},
    ),
    ("/feedback", {"value": 1, "turn": 0, "correction": "no"}),
    ("/end", {"user": "ada"}),
]
_STRANGE: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 1e308, 2**70, "", "x", "\ud800", "\x00", "a" * 5000, "<tool_call>{", [], {}, [[]]),
    *([None], [{}], {"type": "x"}, {"role": "user"}, "assistant", "weather", "../../etc/passwd", "a\r\nx-evil: 1"),
]
_NAMES = ["s1", "..", "%2e%2e", "a%2fb", "a%0d%0ab", "%00", "x" * 300, "é", ""]


def mutated(number: int) -> tuple[str, bytes, dict[str, str]]:
    """A path, a body and headers."""
    draw = random.Random(number)
    path, body = copy.deepcopy(draw.choice(_SEEDS))
    for _ in range(draw.choice([0, 1, 1, 1, 2, 4])):
        mutate(body, draw)
    raw = json.dumps(body).encode()
    if draw.random() < 0.2:
        cut = draw.randrange(len(raw) + 1)
        raw = draw.choice([raw[:cut], raw + raw, raw[:cut] + draw.randbytes(3) + raw[cut:], b"[" * 3000, b"\xff"])
    headers = {}
    if draw.random() < 0.2:
        name = draw.choice(["x-agentfw-session", "x-agentfw-user", "authorization", "content-type", "origin"])
        headers[name] = draw.choice(["", "a b", "x" * 2000, "null", "http://evil", "Bearer x", "\x7f"])
    name = draw.choice(_NAMES) if draw.random() < 0.2 else f"s{number // 30}"
    whole = path if draw.random() < 0.1 else f"/s/{name}{path}"
    return whole, raw, headers


def mutate(value: Any, draw: random.Random) -> None:
    """Change something, somewhere in a value."""
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = draw.choice(keys)
    inner = value[key]
    if isinstance(inner, (dict, list)) and inner and draw.random() < 0.7:
        mutate(inner, draw)
    elif draw.random() < 0.2:
        del value[key]
    else:
        value[key] = copy.deepcopy(draw.choice(_STRANGE))
