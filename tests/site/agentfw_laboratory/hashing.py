"""A policy whose every answer depends on every letter that it reads, on its seed, and on nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import json

from pydantic import Field

from agentfw import Generation, Policy, Request, Settings
from agentfw.episode import Usage


class HashingSettings(Settings):
    pause: float = Field(0.0, ge=0, description="Seconds that an answer takes, so that a run lasts long enough.")


class Hashing(Policy):
    def __init__(self, settings: HashingSettings | None = None) -> None:
        self.settings = settings or HashingSettings()

    async def generate(self, request: Request) -> Generation:
        await asyncio.sleep(self.settings.pause)
        read = "\n".join(f"{message.role} {message.content}" for message in request.messages)
        digest = hashlib.sha256(f"{request.sampling.seed} {read}".encode("utf-8", "surrogatepass")).digest()
        text = json.dumps({"name": "guess", "arguments": {"number": digest[0] % 10}})
        tokens = tuple(digest[:6])
        return Generation(
            text,
            prompt_ids=tuple(range(len(read) % 50)),
            token_ids=tokens,
            logprobs=tuple(-1 / (t + 1) for t in tokens),
            usage=Usage(prompt=len(read), sampled=len(tokens)),
        )
