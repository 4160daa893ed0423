"""A small agent on the official client of OpenAI, for a base model: it asks a tool for a price and adds a number to it.

It knows nothing of agentfw, and any server with this API and tools will do. The conversation begins with examples,
calls and results included, because a base model knows only what it is shown.
"""

from __future__ import annotations

import json
import re
from typing import Any

from openai import OpenAIError
from openai_client import client

THINGS = ("pear", "plum", "fig", "lime", "nut", "bean", "leek", "egg", "ham", "rice", "salt", "milk", "tea", "soap")
SHOWN = (("tea", 5, 7), ("milk", 3, 9), ("nut", 8, 6), ("rice", 4, 1), ("egg", 2, 8), ("soap", 7, 4))
MOST_TURNS, MOST_TOKENS = 3, 14
TOOL = {
    "type": "function",
    "function": {
        "name": "price",
        "description": "The price of a thing.",
        "parameters": {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]},
    },
}
_SUM = re.compile(r"\s*\d+\+\d+=(\d+)\s*")


def asked(thing: str, number: int) -> dict[str, Any]:
    """The message in which the model asks for a price."""
    call = {"name": "price", "arguments": json.dumps({"of": thing})}
    tool_call = {"id": f"shown-{number}", "type": "function", "function": call}
    return {"role": "assistant", "content": None, "tool_calls": [tool_call]}


def examples() -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for number, (thing, price, more) in enumerate(SHOWN):
        messages += [
            {"role": "user", "content": f"{thing}+{more}"},
            asked(thing, number),
            {"role": "tool", "tool_call_id": f"shown-{number}", "content": str(price)},
            {"role": "assistant", "content": f"{price}+{more}={price + more}"},
        ]
    return messages


async def solve(task: dict[str, Any], base_url: str, api_key: str) -> dict[str, Any]:
    """Solve one task: {"question": "leek+4", "prices": {"leek": 9}}. The model doesn't see the price."""
    api = client(base_url, api_key)
    messages: list[Any] = [*examples(), {"role": "user", "content": task["question"]}]
    for turn in range(MOST_TURNS):
        try:
            reply = await api.chat.completions.create(
                model="base", messages=messages, tools=[TOOL], max_tokens=MOST_TOKENS
            )
        except OpenAIError as error:
            return {"answer": None, "error": str(error), "calls": turn}
        said = reply.choices[0].message
        if not said.tool_calls:
            found = _SUM.fullmatch(said.content or "")
            return {"answer": found[1] if found else None, "calls": turn}
        messages.append(said.model_dump(exclude_none=True))
        for call in said.tool_calls:
            try:
                price = task["prices"].get(json.loads(call.function.arguments).get("of"), "unknown")
            except (ValueError, AttributeError):
                price = "unknown"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": str(price)})
    return {"answer": None, "calls": MOST_TURNS}
