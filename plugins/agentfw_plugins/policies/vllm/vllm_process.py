"""A vLLM engine in this process, for a Python with both agentfw and vLLM.

As in every backend, all calls to the engine have a timeout. vLLM runs the model in a process of its own here too, and
ends it with this one.

    agentfw train calendar --policy vllm --set policy.mode=process --set policy.model=path/to/model
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agentfw.errors import AgentfwError, EndpointError, MissingExtraError

from ..local.sampling import Sampled
from .vllm_backend import Heard, Question, VLLMSettings, engine_options


class VLLMProcess:
    """A vLLM engine."""

    def __init__(self, settings: VLLMSettings, folder: Path) -> None:
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        try:
            import vllm
            from vllm.lora.request import LoRARequest
            from vllm.sampling_params import RequestOutputKind
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError as error:
            raise MissingExtraError("vLLM in this process", "vllm", module=error.name or "") from None

        self.settings, self._folder = settings, folder
        self._vllm, self._engine_class, self._lora_class = vllm, AsyncLLM, LoRARequest
        self._final = RequestOutputKind.FINAL_ONLY
        self._engine: Any = None
        self._opening = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._loaded: dict[str, Any] = {}

    async def open(self) -> int:
        async with self._opening:
            if self._engine is None:
                arguments = self._vllm.AsyncEngineArgs(model=str(self._folder), **engine_options(self.settings))
                async with self._within(self.settings.start_deadline, "start"):
                    self._engine = await asyncio.to_thread(self._engine_class.from_engine_args, arguments)
        return int(self._engine.model_config.max_model_len)

    async def complete(self, question: Question, name: str, heard: Heard | None = None) -> Sampled:
        sampling = self._vllm.SamplingParams(
            max_tokens=question.limit,
            temperature=question.temperature,
            top_p=question.top_p,
            seed=question.seed,
            stop_token_ids=sorted(question.end_ids),
            logprobs=0,
            stop=list(question.stop),
            include_stop_str_in_output=True,
            detokenize=bool(question.stop),
        )
        asked = await self._generated(question.prompt, sampling, name)
        answer = asked.outputs[0]
        ids = tuple(answer.token_ids)
        logprobs = tuple(float(said[token].logprob) for token, said in zip(ids, answer.logprobs, strict=True))
        finish = "stop" if question.ended(ids, answer.finish_reason) else "length"
        return Sampled(ids, logprobs, finish, name, getattr(asked, "num_cached_tokens", None))

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int], name: str) -> list[float]:
        ids = [*prompt_ids, *token_ids]
        sampling = self._vllm.SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False)
        given = (await self._generated(ids, sampling, name)).prompt_logprobs
        return [float(given[place][ids[place]].logprob) for place in range(len(prompt_ids), len(ids))]

    async def load(self, name: str, adapter: Path) -> None:
        request = self._lora_class(name, next(self._numbers), str(adapter))
        async with self._within(self.settings.deadline, "load an adapter"):
            await self._engine.add_lora(request)
        self._loaded[name] = request

    async def unload(self, name: str) -> None:
        async with self._within(self.settings.deadline, "unload an adapter"):
            await self._engine.remove_lora(self._loaded.pop(name).lora_int_id)

    async def sleep(self) -> None:
        async with self._within(self.settings.deadline, "go to sleep"):
            await self._engine.sleep(level=1)

    async def wake(self) -> None:
        async with self._within(self.settings.deadline, "wake up"):
            await self._engine.wake_up()

    async def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await asyncio.to_thread(engine.shutdown)

    async def _generated(self, prompt: Sequence[int], sampling: Any, name: str) -> Any:
        number = f"agentfw-{next(self._numbers)}"
        sampling.output_kind = self._final
        async with self._within(self.settings.deadline, "answer"):
            answers = self._engine.generate(
                {"prompt_token_ids": list(prompt)}, sampling, number, lora_request=self._loaded.get(name)
            )
            return [answer async for answer in answers][-1]

    @asynccontextmanager
    async def _within(self, seconds: float, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise EndpointError(
                f"vLLM in this process didn't {what} within {seconds:g} s",
                fix="the machine may be overloaded: lower policy.concurrency, or raise the deadline",
            ) from None
        except (AgentfwError, asyncio.CancelledError):
            raise
        except Exception as error:
            raise EndpointError(
                f"vLLM in this process can't {what}: {type(error).__name__}: {error}",
                fix="see its log on stderr; if memory is low, reduce policy.memory, "
                "policy.context or policy.concurrency",
            ) from error
