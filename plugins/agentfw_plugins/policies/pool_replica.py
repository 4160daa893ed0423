"""One replica of a pool: a policy in a process of its own, and its handle in this one.

Requests and answers cross as plain values. What a request holds for programs doesn't: the moment, and the world's own
rule.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from agentfw import Generation, Host, Policy, Request
from agentfw.engine import Engine, Remote, RemoteDiedError, Resources
from agentfw.errors import AgentfwError, EndpointError, UsageError
from agentfw.host import HostOptions
from agentfw.request import Brief

from ..models.checkpoint import marks_of, write_files

_REQUESTS: TypeAdapter[Request] = TypeAdapter(Request)
_GENERATIONS: TypeAdapter[Generation] = TypeAdapter(Generation)
_FIRST = [0]  # tokens that every model has


class Replica(Policy):
    """A replica, as this process sees it: running, starting, or stopped."""

    def __init__(self, number: int, patience: float) -> None:
        self.number, self.patience = number, patience
        self.name = f"replica {number}"
        self.process: Remote | None = None
        self.restarts = 0
        self.reason: AgentfwError | None = None
        """Why it was lost the last time."""

    async def start(self, engine: Engine, arguments: Sequence[Any], resources: Resources, deadline: float) -> None:
        """Start the process. Returns when its policy has computed something."""
        factory = f"{__name__}:{ReplicaServer.__name__}"
        self.process = engine.start(factory, arguments, name=self.name, resources=resources)
        try:
            async with asyncio.timeout(deadline):
                await asyncio.wrap_future(self.process.ready)
                await self.process.call("load")
        except BaseException as error:
            await self.end(kill=True)
            if not isinstance(error, TimeoutError):
                raise
            words = f"{self.name} was not ready within {deadline:g} s"
            raise EndpointError(words, fix="raise policy.start_deadline") from None

    async def ask(self, method: str, *arguments: Any) -> Any:
        if self.process is None:
            raise RemoteDiedError(f"{self.name} is stopped")
        try:
            async with asyncio.timeout(self.patience):
                return await self.process.call(method, *arguments)
        except TimeoutError:
            words = f"{self.name} has not answered within {self.patience:g} s"
            raise EndpointError(words, fix="raise policy.patience if its answers may take that long") from None

    async def generate(self, request: Request) -> Generation:
        brief = Brief(request.brief.goal, request.brief.actions, request.brief.time_per_token)
        plain = _REQUESTS.dump_python(replace(request, moment=None, brief=brief), mode="json")
        return _GENERATIONS.validate_python(await self.ask("generate", plain))

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        found: list[float] = await self.ask("logprobs", list(prompt_ids), list(token_ids))
        return found

    async def end(self, *, kill: bool = False) -> None:
        """End the process, and let the policy close before it unless it is killed."""
        process, self.process = self.process, None
        if process is not None:
            await asyncio.to_thread(process.kill if kill else process.stop)


class ReplicaServer:
    def __init__(self, name: str, settings: dict[str, Any], options: Any) -> None:
        host = Host.load(HostOptions.from_plain(options))
        made = host.create("policy", name, settings, where="policy.policy")
        assert isinstance(made, Policy)
        if made.is_program:
            raise UsageError(
                f'the policy "{name}" is a program, and a pool runs copies of models: '
                "the world's own values don't cross processes",
                fix=f"use it without a pool: --policy {name}",
            )
        self._policy = made
        self._sent: list[Path] = []  # folders of adapters that were sent, the newest last

    async def load(self) -> None:
        """Let the policy load its model, which it may put off until it is first asked."""
        await self._policy.logprobs(_FIRST, _FIRST)

    async def generate(self, request: Any) -> Any:
        answer = await self._policy.generate(_REQUESTS.validate_python(request))
        return _GENERATIONS.dump_python(answer, mode="json")

    async def publish(self, adapter: str, marks: Any, version: str) -> bool:
        """Publish an adapter on a disk that is shared. False if it isn't there."""
        if await asyncio.to_thread(marks_of, Path(adapter)) != marks:
            return False
        await self._policy.publish(Path(adapter), version)
        return True

    async def publish_files(self, files: dict[str, bytes], version: str) -> None:
        """Publish an adapter whose files were sent. The one before it is kept, because requests may still use it."""
        folder = Path(tempfile.mkdtemp(prefix="agentfw-adapter-"))
        self._sent.append(folder)
        await asyncio.to_thread(write_files, files, folder)
        await self._policy.publish(folder, version)
        self._forget_sent(keep=2)

    async def logprobs(self, prompt_ids: list[int], token_ids: list[int]) -> list[float]:
        return list(await self._policy.logprobs(prompt_ids, token_ids))

    async def rest(self) -> None:
        await self._policy.rest()

    async def wake(self) -> None:
        await self._policy.wake()

    async def alive(self) -> int:
        """Answer at once, with the process's number."""
        return os.getpid()

    async def close(self) -> None:
        await self._policy.close()
        self._forget_sent(keep=0)

    def _forget_sent(self, keep: int) -> None:
        while len(self._sent) > keep:
            shutil.rmtree(self._sent.pop(0), ignore_errors=True)
