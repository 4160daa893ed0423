"""The policy `transformers`: a language model in this process, on the CPU or on a GPU.

    agentfw run calendar --model path/to/model
    agentfw train calendar --policy transformers --optimizer grpo

Token ids are exactly those that the model read and sampled. On a CPU, in fp32, an answer is the same to the last bit
however many others share its batch. On a GPU kernels choose their order of adding by the size of the batch: the last
bits of a logprob differ, and now and then a draw that falls on a border.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from agentfw import Generation, Host, Policy, Request, Settings
from agentfw.engine import Engine as RunEngine
from agentfw.errors import SettingsError
from agentfw.settings import OPERATIONAL, SHARED, VERSION

from ...models import Chat, Device, Precision, Start, locate
from ...models.base import choose_device, fix_order_of_adding, has_weights, require_loadable
from ...models.chat import TEMPLATE_SETTING
from ...models.sampling_weights import Weights
from .sampling import Constraint, Drawing, Schemas, Telling, require_readable
from .transformers_engine import Engine, Job
from .transformers_rows import ATTENTION, register_attention, score

_NO_MODEL = (
    "the policy transformers was given no model and takes tiny, a small one that is made for calendars; "
    "for another: --model ORG/NAME, FOLDER, FILE.gguf or smollm2"
)


class TransformersSettings(Settings):
    model: Annotated[str, SHARED] = Field(
        "tiny",
        description="Model id of Hugging Face (ORG/NAME), folder or GGUF file with a model, smollm2, or the included "
        "tiny.",
    )
    adapter: Annotated[str, SHARED, VERSION] = Field(
        "", description="Folder of an adapter, or of a version of a training. Default: the model alone."
    )
    template: Annotated[str, SHARED] = Field("", description=TEMPLATE_SETTING)
    precision: Annotated[Precision, SHARED] = Field(
        "auto",
        description="fp32, bf16, or nf4 (4-bit weights). `auto` is fp32 on a CPU and bf16 on a GPU. "
        "Use the same as the learner.",
    )
    device: Device = Field("auto", description="cpu, cuda, cuda:1 and so on, or auto: a GPU that plays.")
    batch: Annotated[int, OPERATIONAL] = Field(
        64,
        ge=1,
        description="Maximum number of answers generated at once. The policy caches this many prompts, so it should be "
        "at least the number of concurrent episodes.",
    )
    max_tokens: int = Field(512, ge=1, description="Maximum tokens of an answer, unless the run sets it.")
    context: int | None = Field(
        None, ge=2, description="Maximum tokens of prompt and answer together. Default: the model's maximum."
    )


class TransformersPolicy(Policy):
    """A model in this process."""

    follows_schemas = True
    continues = True

    def __init__(
        self, settings: TransformersSettings | None = None, host: Host | None = None, engine: RunEngine | None = None
    ) -> None:
        self.settings = settings or TransformersSettings()
        if host is not None and "model" not in self.settings.model_fields_set:
            host.notes.append(_NO_MODEL)
        fix_order_of_adding()  # here, because the weights are loaded late, and a reward model may use MKL before that
        folder = locate(self.settings.model, needs_template=not self.settings.template)
        self._chat = Chat(folder, self.settings.template)
        self._context = _context(folder, self.settings.context)
        register_attention()
        planned = "" if engine is None or self.settings.device != "auto" else engine.plan.plays
        device = choose_device(planned or self.settings.device)
        self._weights = Weights(folder, self.settings.precision, device, ATTENTION)
        start = Start.at(self.settings.adapter, folder) if self.settings.adapter else None
        if has_weights(folder):  # else they may be published before the first answer
            require_loadable(folder, self.settings.precision, device)
        self._schemas: Schemas | None = None
        self._adapter, self._version = "", ""
        """Of a policy that is beside another: what its engine calls the adapter, and the version that it is."""
        self._apart: tuple[Weights, Engine] | None = None
        """The base with the adapters of policies that are beside this one."""
        self._engine = Engine(
            lambda _: self._weights.of(None if start is None else start.folder),
            self._chat.end_ids,
            self.settings.batch,
            self.settings.model if start is None else start.version,
        )

    async def count_tokens(self, request: Request) -> int:
        return len(self._chat.prompt_of(request))

    async def generate(self, request: Request) -> Generation:
        if not request.stop:
            return await self._answer(request, None)
        telling = Telling(self._chat, lambda text: None, request.stop)
        return await self._answer(request, lambda token: telling.hear([token]))

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        loop = asyncio.get_running_loop()
        # The engine has a thread.
        telling = Telling(self._chat, lambda text: loop.call_soon_threadsafe(tell, text), request.stop)
        generation = await self._answer(request, lambda token: telling.hear([token]))
        telling.end(generation.text)
        await asyncio.sleep(0)
        return generation

    async def _answer(self, request: Request, heard: Callable[[int], bool] | None) -> Generation:
        settings = self.settings
        prompt = self._chat.prompt_of(request)
        drawing = Drawing.of(request, prompt, model=settings.model, context=self._context, limit=settings.max_tokens)
        constraint = None if request.schema is None else await asyncio.to_thread(self._constraint, request.schema)
        job = Job(drawing, heard, constraint, self._adapter)
        sampled = await asyncio.wrap_future(self._engine.sample(job))
        if self._adapter:
            sampled = replace(sampled, version=self._version)
        return drawing.generation(self._chat, sampled, constrained=constraint is not None)

    async def publish(self, adapter: Path, version: str) -> None:
        await asyncio.wrap_future(self._engine.call(lambda: self._engine.serve(self._weights.of(adapter), version)))

    async def beside(self, adapter: Path, version: str) -> TransformersPolicy:
        """One more adapter over the base. All of them share its weights, and a thread with its rows."""
        if self._apart is None:
            settings = self.settings
            weights = Weights(self._weights.base, settings.precision, self._weights.device, ATTENTION)
            self._apart = weights, Engine(weights.use, self._chat.end_ids, settings.batch)
        weights, engine = self._apart
        other = copy(self)
        other._engine, other._weights, other._version = engine, weights, version
        other._adapter = await asyncio.wrap_future(engine.call(lambda: weights.add(adapter)))
        return other

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        (found,) = await self.score([(prompt_ids, token_ids)])
        return found

    async def score(self, answers: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Sequence[Sequence[float]]:
        def scored() -> list[tuple[float, ...]]:
            model = self._engine.model(self._adapter)
            limits = {"vocabulary": model.config.vocab_size, "context": self._context}
            for answer in answers:
                require_readable(*answer, model=self.settings.model, **limits)
            return score(model, answers)

        return await asyncio.wrap_future(self._engine.call(scored))

    async def rest(self) -> None:
        """Only the rows are released. A quantized model may stay, and moving it would cost time each time."""

        def released() -> None:
            import torch

            self._engine.forget()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

        await asyncio.wrap_future(self._engine.call(released))

    async def close(self) -> None:
        if self._adapter:
            await asyncio.wrap_future(self._engine.call(lambda: self._weights.remove(self._adapter)))
            return
        await asyncio.to_thread(self._engine.close)
        if self._apart is not None:
            await asyncio.to_thread(self._apart[1].close)

    def _constraint(self, schema: Mapping[str, Any]) -> Constraint:
        if self._schemas is None:
            self._schemas = Schemas(self._chat.tokenizer_json(), self._chat.end_ids)
        return self._schemas.constraint(schema)


def _context(folder: Path, wished: int | None) -> int:
    """The model's maximum number of tokens, or a smaller requested one."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config |= config.get("text_config", {})
    able = config.get("max_position_embeddings")
    positions = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if "longrope" in (positions.get("rope_type"), positions.get("type")):
        # Beyond these, transformers gives all tokens of a pass other positions: an answer would depend on the others.
        able = positions.get("original_max_position_embeddings") or config.get("original_max_position_embeddings", able)
    if wished is not None and able is not None and wished > able:
        raise SettingsError(f"policy.context is {wished}, but the model reads at most {able} tokens", fix="lower it")
    if wished is None and able is None:
        raise SettingsError(f"the model in {folder} doesn't state its maximum length", fix="set policy.context")
    return int(wished or able)
