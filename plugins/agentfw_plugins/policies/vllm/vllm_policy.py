"""The policy `vllm`: a vLLM server, started here or already running.

    agentfw train calendar --policy vllm --set policy.model=path/to/model
    agentfw train calendar --policy vllm --set policy.model=path/to/model --set policy.base_url=http://gpu-7:8000

Prompts are sent as token ids, and answers are token ids with logprobs. Each version is an adapter with its own name,
loaded while vLLM runs. One that requests may be using is never replaced, and unused ones are unloaded.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from agentfw import Generation, Policy, Request
from agentfw.engine import Engine
from agentfw.errors import AgentfwError, SettingsError

from ...models import Chat, Start, check_adapter, choose_device, locate
from ...models.locate import four_bit_folder
from ..local.sampling import Drawing, Telling
from .vllm_backend import Heard, VLLMSettings, beside
from .vllm_server import VLLMServer

logger = logging.getLogger(__name__)


class VLLMPolicy(Policy):
    """A model served by vLLM."""

    continues = True

    def __init__(self, settings: VLLMSettings | None = None, engine: Engine | None = None) -> None:
        self.settings = settings or VLLMSettings()
        cards: tuple[str, ...] = ()
        if engine is not None and not self.settings.base_url:
            self.settings = VLLMSettings(**beside(self.settings.model_dump(), engine.plan))
            cards = tuple(card.name for card in engine.plan.playing[: self.settings.gpus])
        self._folder = locate(self.settings.model)
        self._chat = Chat(self._folder, self.settings.template)
        self._start = Start.at(self.settings.adapter, self._folder) if self.settings.adapter else None
        if self._start is not None:
            self._check(self._start.folder)
        self._backend = VLLMServer(self.settings, self._served(), cards)
        self._name, self._version, self._is_beside = "", self.settings.model, False
        self._starting = asyncio.Lock()
        self._flying: Counter[str] = Counter()

    def _served(self) -> Path:
        """The folder that vLLM loads: what the four bits of the learner's base stand for, if it has four bits."""
        if self.settings.precision != "nf4" or self.settings.base_url:
            return self._folder
        return four_bit_folder(self._folder, choose_device("auto"))

    async def count_tokens(self, request: Request) -> int:
        return len(self._chat.prompt_of(request))

    async def generate(self, request: Request) -> Generation:
        return await self._answer(request, None)

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        telling = Telling(self._chat, tell)
        generation = await self._answer(request, telling.hear)
        telling.end(generation.text)
        return generation

    async def _answer(self, request: Request, heard: Heard | None) -> Generation:
        prompt = self._chat.prompt_of(request)
        context = await self._opened()
        settings = self.settings
        drawing = Drawing.of(request, prompt, model=settings.model, context=context, limit=settings.max_tokens)
        name, version = self._name, self._version
        self._flying[name] += 1
        try:
            sampled = await self._backend.complete(drawing, self._chat.end_ids, request.stop, name, heard)
        finally:
            self._flying[name] -= 1
            await self._unload_if_unused(name)
        return drawing.generation(self._chat, replace(sampled, version=version))

    async def _opened(self) -> int:
        """Start vLLM, with the adapter that it begins with. Returns the model's maximum number of tokens."""
        context = await self._backend.open()
        async with self._starting:
            if self._start is not None:
                await self._load(self._start.folder, self._start.version)
        return context

    async def publish(self, adapter: Path, version: str) -> None:
        self._check(adapter)
        await self._backend.open()
        async with self._starting:
            await self._load(adapter, version)

    async def beside(self, adapter: Path, version: str) -> VLLMPolicy:
        self._check(adapter)
        await self._backend.open()
        other = copy(self)
        other._is_beside, other._name, other._start, other._flying = True, "", None, Counter()
        await other._load(adapter, version)
        return other

    async def _load(self, adapter: Path, version: str) -> None:
        # Unique also on a server that is shared, or that an earlier training of this name used.
        name = f"{version}.{uuid4().hex[:8]}"
        await self._backend.load(name, adapter.resolve())
        before, self._name, self._version, self._start = self._name, name, version, None
        await self._unload_if_unused(before)

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        await self._opened()
        return await self._backend.score(prompt_ids, token_ids, self._name)

    async def rest(self) -> None:
        if self.settings.sleep:
            await self._backend.open()
            await self._backend.sleep()

    async def wake(self) -> None:
        if self.settings.sleep:
            await self._backend.wake()

    async def close(self) -> None:
        if self._is_beside:
            name, self._name = self._name, ""
            await self._unload_if_unused(name)
        else:
            await self._backend.close()

    async def _unload_if_unused(self, name: str) -> None:
        if name and name != self._name and not self._flying[name]:
            del self._flying[name]
            try:
                await self._backend.unload(name)
            except AgentfwError as error:
                # It only costs memory there.
                logger.warning("%s could not be unloaded: %s", name, error)

    def _check(self, adapter: Path) -> None:
        config = adapter / "adapter_config.json"
        if not config.is_file():
            raise SettingsError(
                f"{adapter} is not an adapter, and a running vLLM can only load adapters",
                fix="train with learner.weights=lora, or use the policy transformers for whole models",
            )
        rank = json.loads(config.read_text("utf-8")).get("r", 0)
        if rank > self.settings.rank:
            wrong = f"the adapter {adapter} has rank {rank}, but vLLM was started for at most {self.settings.rank}"
            raise SettingsError(wrong, fix=f"set policy.rank to {rank} or more")
        check_adapter(adapter, self._folder)
