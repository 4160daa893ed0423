"""The openai policy as tests use it: one request to a server, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from agentfw.episode import Message
from agentfw.errors import EndpointError
from agentfw.policy import Generation, Request
from agentfw.request import Action
from agentfw_plugins.policies.http.openai_policy import OpenAIPolicy, OpenAISettings

OPEN = Action(
    "open",
    "Open a message.",
    {"type": "object", "properties": {"message": {"type": "integer"}}, "required": ["message"]},
)
ASK = Request([Message("system", "Be brief."), Message("user", "Hello?")])


T = TypeVar("T")


def policy_at(address: str, **settings: Any) -> OpenAIPolicy:
    return OpenAIPolicy(OpenAISettings(**{"base_url": address, "model": "served", "deadline": 20, **settings}))


def ask(policy: OpenAIPolicy, request: Request = ASK) -> Generation:
    return finish(policy, policy.generate(request))


def finish(policy: OpenAIPolicy, work: Coroutine[Any, Any, T]) -> T:
    async def run() -> T:
        try:
            return await work
        finally:
            await policy.close()

    return asyncio.run(run())


def fails(policy: OpenAIPolicy, request: Request = ASK) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        ask(policy, request)
    return caught.value
