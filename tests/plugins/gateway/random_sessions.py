"""Random sessions with a model: several turns with tools, retries, branches and edits of the history."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import httpx

from agentfw import Generation, Policy, Request

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"To {name} something",
            "parameters": {"type": "object", "properties": {"drink": {"type": "string"}}},
        },
    }
    for name in ("serve", "order")
]
WORDS = ["guest", "tea", "coffee", "would", "like", "serve", "round", "mint", "green", "<tool_call>", "<|end|>"]


class Noting(Policy):
    """Notes what another policy draws."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.drawn = policy, list[Generation]()

    async def generate(self, request: Request) -> Generation:
        self.drawn.append(await self.policy.generate(request))
        return self.drawn[-1]

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        self.drawn.append(await self.policy.stream(request, tell))
        return self.drawn[-1]

    async def close(self) -> None:
        await self.policy.close()


async def lead(client: httpx.AsyncClient, url: str, number: int, *, most_tokens: int = 12) -> None:
    """One session."""
    draw = random.Random(number)

    def words() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 8)))

    conversation: list[dict[str, Any]] = [{"role": "system", "content": words()}] if draw.random() < 0.5 else []
    conversation.append({"role": "user", "content": words()})
    tools = TOOLS if draw.random() < 0.7 else []
    for _ in range(draw.randint(2, 4)):
        given = {"model": "any", "messages": conversation, "max_tokens": most_tokens, "temperature": 1.0}
        given |= {"tools": tools} if tools else {}
        given |= {"stream": True} if draw.random() < 0.3 else {}
        # Some requests are sent twice, some at the same time.
        tries = [_asked(client, url, given) for _ in range(draw.choice([1, 1, 1, 2]))]
        message = (await asyncio.gather(*tries))[-1]
        move = draw.random()
        if move < 0.15:  # goes back and tries something else
            conversation = [
                *conversation[: draw.randint(0, len(conversation) - 1)],
                {"role": "user", "content": words()},
            ]
            continue
        if move < 0.3:  # edits what was said
            message = {"role": "assistant", "content": words()}
        conversation = [*conversation, message]
        for call in message.get("tool_calls", []):
            conversation.append({"role": "tool", "tool_call_id": call["id"], "content": words()})
        if not message.get("tool_calls"):
            conversation.append({"role": "user", "content": words()})


async def _asked(client: httpx.AsyncClient, url: str, given: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(f"{url}/chat/completions", json=given)
    answer.raise_for_status()
    if not given.get("stream"):
        found: dict[str, Any] = answer.json()["choices"][0]["message"]
        return found
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    for line in answer.text.splitlines():
        if line.startswith("data: {"):
            delta = json.loads(line[6:])["choices"][0]["delta"]
            message["content"] += delta.get("content") or ""
            for call in delta.get("tool_calls", []):
                message.setdefault("tool_calls", []).append({k: v for k, v in call.items() if k != "index"})
    return message
