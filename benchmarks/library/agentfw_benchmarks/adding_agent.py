"""A small agent on the official client of OpenAI, for a base model: it shows a few additions, and asks for another.

It knows nothing of agentfw, and any server with this API will do.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError

EXAMPLES = ("12+7=19\n", "3+25=28\n", "21+14=35\n", "8+34=42\n")
SHOWN = "".join(EXAMPLES[:3])
MOST = 4
"""Tokens of an answer: two digits, the end of the line, and one to spare."""
_FIRST = re.compile(r"\s*(\d+)(?!\d)")


async def solve(task: dict[str, Any], base_url: str, api_key: str) -> dict[str, Any]:
    """Solve one task: {"question": "3+5", "examples": 3}. Only the number at the start of the answer counts."""
    api = AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=connections())
    shown = "".join(EXAMPLES[: task["examples"]])
    asked: list[Any] = [{"role": "user", "content": f"{shown}{task['question']}="}]
    try:
        reply = await api.chat.completions.create(model="base", messages=asked, max_tokens=MOST, stop=["\n"])
    except OpenAIError as error:
        return {"answer": None, "error": str(error)}
    found = _FIRST.match(reply.choices[0].message.content or "")
    return {"answer": found[1] if found else None}


@cache
def connections() -> DefaultAsyncHttpxClient:
    """One pool of connections for all tasks."""
    return DefaultAsyncHttpxClient(timeout=600, trust_env=False)
