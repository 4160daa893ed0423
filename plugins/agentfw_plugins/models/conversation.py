"""Converts a conversation to the format of chat models, for servers and chat templates.

What a model wrote is sent back verbatim. If the calls of an answer are in its text (because the model wrote them there,
or because they were too broken to be calls), the text is sent as it is, without separate calls.

    >>> from agentfw.episode import Call, Message
    >>> conversation([Message("assistant", "", (Call("open", {"n": 1}, "1.0"),))], (), native=False)
    [{'role': 'assistant', 'content': '<tool_call>{"name": "open", "arguments": {"n": 1}}</tool_call>'}]

`native` says whether the reader supports tools. If not, the tools are described in the system message, and calls are
parsed from the text. `results` says whether it reads the answer of a tool without a call before it, as most templates
do. A server doesn't, so the answer to a call in the text is a message of the user there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentfw import Message
from agentfw.episode import Call
from agentfw.request import Action
from agentfw.turns.parsing import parse_calls

__all__ = ["conversation", "function", "tagged"]


def conversation(
    messages: Sequence[Message], actions: Sequence[Action], *, native: bool, results: bool = False
) -> list[dict[str, Any]]:
    """Messages as a chat template takes them; with calls as such if the model has a format for them (`native`)."""
    told: list[dict[str, Any]] = []
    written: set[str] = set()  # ids of calls that are in the text; answers can't refer to them
    for message in messages:
        if message.role == "tool" and message.answers in written:
            told.append({"role": "user", "content": f"<tool_response>\n{message.content}\n</tool_response>"})
        elif message.role == "tool":
            told.append({"role": "tool", "tool_call_id": message.answers, "content": message.content})
        elif not message.calls:
            told.append({"role": message.role, "content": message.content})
        elif native and not _spelled(message):
            calls = [_call(call) for call in message.calls]
            told.append({"role": message.role, "content": message.content or None, "tool_calls": calls})
        else:
            written.update(call.id for call in message.calls if not results)
            text = message.content if _spelled(message) else _as_text(message.content, message.calls)
            told.append({"role": message.role, "content": text})
    if actions and not native:
        explained = _explained(actions)
        if told and told[0]["role"] == "system":
            told[0]["content"] += f"\n\n{explained}"
        else:
            told.insert(0, {"role": "system", "content": explained})
    return _joined(told)


def function(action: Action) -> dict[str, Any]:
    """An action in the JSON format for functions."""
    described = {"name": action.name, "description": action.description, "parameters": dict(action.parameters)}
    return {"type": "function", "function": described}


def tagged(name: object, arguments: object) -> str:
    """A call in the most common text format."""
    text = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    # Equivalent JSON that can't contain the closing tag.
    inside = text.replace("</", "<\\/")
    return f"<tool_call>{inside}</tool_call>"


def _joined(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge adjacent user messages, because many chat templates reject two in a row."""
    joined: list[dict[str, Any]] = []
    for message in told:
        if joined and message["role"] == joined[-1]["role"] == "user":
            joined[-1]["content"] += f"\n{message['content']}"
        else:
            joined.append(message)
    return joined


def _spelled(message: Message) -> bool:
    """Whether the text itself contains the calls."""
    found = parse_calls(message.content, {call.name for call in message.calls}).calls
    return [call.name for call in found] == [call.name for call in message.calls]


def _call(call: Call) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _as_text(content: str, calls: Sequence[Call]) -> str:
    written = [tagged(call.name, dict(call.arguments)) for call in calls]
    return "\n".join([content, *written] if content else written)


def _explained(actions: Sequence[Action]) -> str:
    """A description of the actions for the system message, in the format that most open models were trained with."""
    functions = "\n".join(json.dumps(function(action), ensure_ascii=False) for action in actions)
    return (
        f"You can call these functions:\n<tools>\n{functions}\n</tools>\n"
        'For each call write <tool_call>{"name": ..., "arguments": {...}}</tool_call>.'
    )
