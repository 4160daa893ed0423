"""A small agent on the official client of OpenAI. It knows nothing of agentfw, and any server with this API will do.

It solves sums within a budget of tokens: what is not answered by then is lost. It looks for the answer in what the
model says, asks once more where there is none and the budget allows for it, and reports what it has found.
"""

from __future__ import annotations

import re
from typing import Any

from openai import OpenAIError
from openai_client import client

ANSWER = re.compile(r"<answer>\s*(-?\d+)\s*</answer>")
LEAST = 8
"""Tokens that are worth another try."""
URGENCY = {
    16: "Answer straight away, there is no time left.",
    32: "There is little time, so think briefly and answer.",
    48: "There is some time, so think it through and answer.",
}


def prompt(question: str, budget: int) -> str:
    return f"[0] round 1 of 1\n{question}\nYou have {budget} tokens. {URGENCY[budget]}"


async def solve(task: dict[str, Any], base_url: str, api_key: str) -> dict[str, Any]:
    """Solve one task: {"question": "What is 3 + 5?", "budget": 32}."""
    api = client(base_url, api_key)
    messages: list[Any] = [{"role": "user", "content": prompt(task["question"], task["budget"])}]
    left, found, asked = int(task["budget"]), None, 0
    while found is None and left >= LEAST and asked < 2:
        asked += 1
        try:
            reply = await api.chat.completions.create(model="sums", messages=messages, max_tokens=left)
        except OpenAIError as error:
            return {"answer": None, "error": str(error), "asked": asked}
        said = reply.choices[0].message.content or ""
        left -= reply.usage.completion_tokens if reply.usage else len(said.split())
        match = ANSWER.search(said)
        if match is not None:
            found = match[1]
    return {"answer": found, "asked": asked, "left": max(0, left)}
