"""What the record has of a request that is passed on, whatever stands in it.

The request goes to its server as it is, and the server says what is wrong with it. So nothing is refused here. What a
record has no place for, such as a picture, is there by its kind and a digest.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from agentfw import Message
from agentfw.episode import Call
from agentfw.request import Action, Sampling

from ..protocols.bodies import Asked, Body

__all__ = ["recorded"]

_ROLES = {"developer": "system", "function": "tool"}


def recorded(body: Body) -> Asked:
    """What a request asks for, as far as it can be told."""
    values = body.values
    actions = dict[str, Action]()
    for tool in _objects(values.get("tools")):
        kind = str(tool.get("type") or "function")
        described = tool[kind] if isinstance(tool.get(kind), dict) else tool
        name, schema = _text(described.get("name")) or kind, described.get("parameters")
        actions.setdefault(
            name, Action(name, _text(described.get("description")), schema if isinstance(schema, dict) else {})
        )
    if not (messages := _objects(values.get("messages"))):
        raise body.wrong("messages", "must be a list of messages")
    return Asked(
        model=body.name("model"),
        messages=tuple(map(_message, messages)),
        actions=tuple(actions.values()),
        sampling=Sampling(_number(values.get("temperature")), _number(values.get("top_p"))),
        stream=values.get("stream") is True,
        user=_text(values.get("user")) or _text(values.get("safety_identifier")),
    )


def _message(values: dict[str, Any]) -> Message:
    role = _text(values.get("role"))
    calls = []
    for call in _objects(values.get("tool_calls")):
        function = call.get("function")
        given = function.get("arguments") if isinstance(function, dict) else None
        try:
            arguments = json.loads(given) if isinstance(given, str) else given
        except (ValueError, RecursionError):
            arguments = None
        if isinstance(function, dict) and isinstance(arguments, dict):
            calls.append(Call(_text(function.get("name")), arguments, _text(call.get("id"))))
    content = values.get("content")
    text = "".join(map(_part, content)) if isinstance(content, list) else _text(content)
    return Message(_ROLES.get(role, role), text, tuple(calls), _text(values.get("tool_call_id")))


def _part(part: object) -> str:
    if isinstance(part, dict):
        kind = _text(part.get("type"))
        if kind in ("text", "refusal"):
            return _text(part.get(kind))
        digest = blake2b(json.dumps(part, sort_keys=True).encode(), digest_size=6).hexdigest()
        return f"[{kind or 'part'} {digest}]"
    return _text(part)


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
