"""The policy `tiny`: the small language model that ships with agentfw, computed in numpy.

    agentfw run calendar --policy tiny --memory strategyhub --set memory.strategyhub.show=true

It works like any other language model: it reads the conversation and writes text, and its calls are parsed from that
text. It was trained for one job, that of the calendar (models/tiny/README.md describes how).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from agentfw import Generation, Policy, Request, Settings
from agentfw.settings import SHARED, VERSION

from ...models.checkpoint import Start
from ...models.locate import locate
from ...models.small_model import NumpyLlama, Row, SmallChat, log_softmax
from .sampling import Drawing, Sampled, require_readable


class TinySettings(Settings):
    model: Annotated[str, SHARED] = Field(
        "tiny", description="Folder of a small Llama, or the name of an installed model, such as tiny or tiny-sums."
    )
    adapter: Annotated[str, SHARED, VERSION] = Field(
        "", description="Folder of an adapter, or of a version of a training. Default: the model alone."
    )
    batch: int = Field(64, ge=1, description="Maximum number of answers generated at once.")
    max_tokens: int = Field(400, ge=1, description="Maximum tokens of an answer, unless the run sets it.")
    temperature: float = Field(
        0.0, ge=0, description="Sampling temperature, unless the run sets it. 0 takes the likeliest token."
    )


class _Answer:
    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        self.model: NumpyLlama  # the one that was served when it was begun
        self.version = ""
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.token_ids: list[int] = []
        self.logprobs: list[float] = []
        self._numbers = np.random.default_rng(drawing.seed)

    def draw(self, row: Row) -> int:
        """Append a token with its logprob in the distribution that it was sampled from."""
        if not self.drawing.temperature:
            token = int(row.logits.argmax())
            logprob = float(log_softmax(row.logits)[token])
        else:
            logits = row.logits.astype(np.float64) / self.drawing.temperature
            chances = np.exp(logits - logits.max())
            chances /= chances.sum()
            if self.drawing.top_p < 1:
                order = np.argsort(-chances, kind="stable")
                outside = np.cumsum(chances[order]) - chances[order] >= self.drawing.top_p
                outside[0] = False
                chances[order[outside]] = 0.0
            heights = np.cumsum(chances)
            aim = self._numbers.random() * heights[-1]
            token = min(int(np.searchsorted(heights, aim, side="right")), len(heights) - 1)
            logprob = float(np.log(chances[token] / heights[-1]))
        self.token_ids.append(token)
        self.logprobs.append(logprob)
        return token


class TinyPolicy(Policy):
    """A small model in this process. All requested answers are generated in parallel, token by token."""

    continues = True

    def __init__(self, settings: TinySettings | None = None) -> None:
        self.settings = settings or TinySettings()
        self._folder = locate(self.settings.model)
        self._chat = SmallChat(self._folder)
        start = Start.at(self.settings.adapter, self._folder) if self.settings.adapter else None
        self._model = self._loaded(None if start is None else start.folder)
        self._version = self.settings.model if start is None else start.version
        self._waiting: deque[_Answer] = deque()
        self._work: asyncio.Task[None] | None = None

    async def count_tokens(self, request: Request) -> int:
        return len(self._chat.prompt_of(request))

    async def generate(self, request: Request) -> Generation:
        prompt = self._chat.prompt_of(request)
        settings = self.settings
        drawing = Drawing.of(
            request,
            prompt,
            model=settings.model,
            context=self._model.context,
            limit=settings.max_tokens,
            temperature=settings.temperature,
        )
        answer = _Answer(drawing)
        self._waiting.append(answer)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._answer_all())
        await answer.future
        finish = "stop" if answer.token_ids[-1] in self._chat.end_ids else "length"
        sampled = Sampled(tuple(answer.token_ids), tuple(answer.logprobs), finish, answer.version, cached=0)
        return drawing.generation(self._chat, sampled)

    async def _answer_all(self) -> None:
        """Generate until no requests are left. New requests join in between."""
        running: list[tuple[_Answer, Row]] = []
        while True:
            # Let all agents submit requests first: agents in lockstep then share the same batches.
            await asyncio.sleep(0)
            while self._waiting and len(running) < self.settings.batch:
                answer = self._waiting.popleft()
                answer.model, answer.version = self._model, self._version
                running.append((answer, answer.model.read(answer.drawing.prompt)))
            if not running:
                return
            going_on = []
            for answer, row in running:
                if answer.future.cancelled():
                    continue
                token = answer.draw(row)
                if token in self._chat.end_ids or len(answer.token_ids) == answer.drawing.limit:
                    answer.future.set_result(None)
                else:
                    going_on.append((answer, row))
            for model in dict.fromkeys(answer.model for answer, _ in going_on):
                some = [(answer, row) for answer, row in going_on if answer.model is model]
                model.step([row for _, row in some], [answer.token_ids[-1] for answer, _ in some])
            running = going_on

    async def publish(self, adapter: Path, version: str) -> None:
        """Answers in progress finish with the weights that they started with."""
        self._model, self._version = await asyncio.to_thread(self._loaded, adapter), version

    async def beside(self, adapter: Path, version: str) -> TinyPolicy:
        """A model of its own: adding an adapter up takes less time than computing with it apart, and little memory."""
        other = copy(self)
        other._waiting, other._work = deque(), None
        await other.publish(adapter, version)
        return other

    def _loaded(self, adapter: Path | None) -> NumpyLlama:
        """The model, the model with an adapter, or the whole model that a version is."""
        whole = adapter is None or not (adapter / "adapter_config.json").is_file()
        return NumpyLlama.load(adapter or self._folder) if whole else NumpyLlama.load(self._folder, adapter)

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        name, model = self.settings.model, self._model
        require_readable(prompt_ids, token_ids, model=name, vocabulary=model.vocabulary, context=model.context)
        return tuple(float(value) for value in model.logprobs(prompt_ids, token_ids))

    async def close(self) -> None:
        if self._work is not None:
            self._work.cancel()
