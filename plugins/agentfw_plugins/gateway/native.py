"""Requests in the format of a server that speaks it itself, as far as the record has a place for them.

Such a request is passed on as it is. For the record, what no message can hold stands there by its kind and a digest, so
that the format's own reading understands the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from ..protocols.bodies import Asked, BadRequest, Body
from ..protocols.protocol import Dialect
from .recorded import recorded

__all__ = ["recorded_native", "refuse_foreign"]

_KEPT = {"model", "input", "instructions", "messages", "system", "tools", "user", "safety_identifier", "stream"}
_KEPT |= {"temperature", "top_p", "prompt"}
_ITEMS = {"message", "function_call", "function_call_output"}
_PARTS = {"text", "input_text", "output_text", "refusal", "tool_use", "tool_result"}
_THOUGHTS = {"reasoning", "thinking", "redacted_thinking"}


def recorded_native(dialect: Dialect, body: Body) -> Asked:
    """What a request asks for, as far as it can be told."""
    if dialect.path == "chat/completions":
        return recorded(body)
    values = {name: value for name, value in body.values.items() if name in _KEPT and value is not None}
    for name in ("input", "messages", "system"):
        if isinstance(values.get(name), list):
            values[name] = [_item(item) for item in values[name] if not _is_thought(item)]
    if isinstance(tools := values.pop("tools", None), list):
        values["tools"] = [_tool(tool, dialect) for tool in tools if isinstance(tool, dict)]
    metadata = body.values.get("metadata")
    if isinstance(metadata, dict) and isinstance(user := metadata.get("user_id"), str):
        values["user"] = user
    try:
        return recorded(dialect.chat(Body({**values, **dialect.required})))
    except BadRequest:
        # The server says what is wrong with it.
        said = [{"role": "user", "content": _digest("request", body.values)}]
        return recorded(Body({"messages": said, **{name: values[name] for name in _KEPT & {"model"} & values.keys()}}))


def refuse_foreign(body: Body) -> None:
    """Refuse what names a conversation that the server keeps: it would be anybody's who has a key of the gateway."""
    body.refuse({"previous_response_id": ("",), "conversation": ("",)})
    for item in body.listed("input") if isinstance(body.values.get("input"), list) else []:
        if item.values.get("type") == "item_reference":
            raise item.unsupported("type", '"item_reference" is not supported')


def _item(item: object) -> object:
    """An item of a conversation, or a message, or a part of a system message."""
    if not isinstance(item, dict):
        return {"role": "user", "content": _digest("item", item)}
    if "role" not in item and _kind(item) not in (_ITEMS | _PARTS):
        return {"role": "assistant", "content": _digest(_kind(item), item)}
    changed = dict(item)
    for name in ("content", "output"):
        if isinstance(item.get(name), list):
            changed[name] = [_part(part) for part in item[name] if not _is_thought(part)]
    changed.pop("citations", None)
    return changed


def _part(part: object) -> object:
    return _item(part) if _kind(part) in _PARTS else {"type": "text", "text": _digest(_kind(part), part)}


def _tool(tool: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
    own = "function" if dialect.path == "responses" else "custom"
    if _kind(tool) in (own, ""):
        return {"type": own, **{name: value for name, value in tool.items() if name != "defer_loading"}}
    return {"type": own, "name": str(tool.get("name") or _kind(tool))}


def _is_thought(item: object) -> bool:
    return _kind(item) in _THOUGHTS


def _kind(item: object) -> str:
    kind = item.get("type") if isinstance(item, dict) else None
    return kind if isinstance(kind, str) else ""


def _digest(kind: str, value: object) -> str:
    return f"[{kind or 'item'} {blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=6).hexdigest()}]"
