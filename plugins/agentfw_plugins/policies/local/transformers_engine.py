"""The generation engine of the policy `transformers`: one model and one thread that works on all requests at once.

The tokens of an answer don't depend on other requests (on a CPU to the last bit, see transformers_rows). A request
joins as soon as a row is free, and leaves when it is done. `call` runs a function alone: after all earlier requests,
before all later ones.

The contents of a row stay until the row is needed. A prompt that shares a prefix with another one, running or not, is
computed only from where they differ, and samples of one task begin with what is known of the first one's next token.
Only the states of prompts are reused, never those of generated tokens, because the two differ in their last bits.

Layers of other kinds than full or sliding attention have states that can't be cut at a token (other_layers). A model
with such layers is computed row by row, with transformers' own cache and attention, and its rows share nothing.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy

from agentfw.errors import AgentfwError

from .sampling import Constraint, Drawing, Sampled, draw
from .transformers_rows import ATTENTION, BLOCK, Plan, Rows, Segment, blocks

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_PROMPT_TOKENS = 4096  # of prompts in one pass; more would only need more memory
Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class Job:
    drawing: Drawing
    heard: Callable[[int], bool] | None = None
    """Called with each token when it is sampled, on the engine's thread. The answer ends with it if that is True."""
    constraint: Constraint | None = None  # what the answer may be
    adapter: str = ""  # the adapter to compute with, if the engine has several
    future: Future[Sampled] = field(default_factory=Future)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    tokens: numpy.ndarray = field(init=False)
    numbers: numpy.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.tokens = numpy.asarray(self.drawing.prompt, dtype=numpy.int64)
        self.numbers = numpy.random.default_rng(self.drawing.seed)


@dataclass(slots=True, eq=False)
class _Row:
    """The content of a row: a prompt, as far as it is computed."""

    tokens: numpy.ndarray
    adapter: str = ""
    computed: int = 0
    used: int = 0
    job: Job | None = None
    logits: Any = None  # of the token after the prompt, once the whole prompt is computed
    cache: Any = None  # transformers' own, if rows are computed one by one

    @property
    def length(self) -> int:
        """Number of tokens in the row, including sampled ones."""
        return len(self.tokens) + (len(self.job.token_ids) if self.job is not None else 0)

    def shares(self, prompt: numpy.ndarray, adapter: str) -> int:
        """Number of tokens that another prompt shares with this one at the start: all, or whole blocks."""
        if adapter != self.adapter:
            return 0
        if numpy.array_equal(self.tokens, prompt):
            return len(prompt)
        # At least one token of a new prompt is computed, because the first token of the answer follows from it.
        limit = min(len(self.tokens), len(prompt) - 1)
        differs = numpy.flatnonzero(self.tokens[:limit] != prompt[:limit])
        return int(differs[0] if len(differs) else limit) // BLOCK * BLOCK

    def ready(self, shared: int) -> int:
        """How many of the shared tokens needn't be computed again."""
        if self.logits is not None and shared == len(self.tokens):
            return shared
        return max(0, min(shared, self.computed, len(self.tokens) - 1)) // BLOCK * BLOCK


@dataclass(slots=True, eq=False)
class _Call:
    run: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)


class Engine:
    """The thread and its data. All methods can be called from any thread."""

    def __init__(
        self, load: Callable[[str], PreTrainedModel], end_ids: frozenset[int], batch: int, version: str = ""
    ) -> None:
        """`load` gives the model with an adapter, or without one where a job names none."""
        self._load, self._end_ids, self._version = load, end_ids, version
        self._model: PreTrainedModel | None = None
        self._one_by_one = False
        self._rows = Rows(batch)
        self._places = [_Row(numpy.empty(0, numpy.int64)) for _ in range(batch)]
        self._clock = 0
        self._asked: queue.SimpleQueue[Job | _Call | None] = queue.SimpleQueue()
        self._waiting: deque[Job | _Call] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False

    def sample(self, job: Job) -> Future[Sampled]:
        self._put(job)
        return job.future

    def call(self, run: Callable[[], Answer]) -> Future[Answer]:
        """Run a function on the engine's thread, after all earlier requests and before any later one."""
        call = _Call(run)
        self._put(call)
        return call.future

    def model(self, adapter: str = "") -> PreTrainedModel:
        """The served model, or that with an adapter. Only for functions that run on the engine's thread."""
        if self._model is None or adapter:
            self._take(self._load(adapter))
        assert self._model is not None
        return self._model

    def serve(self, model: PreTrainedModel, version: str) -> None:
        """Serve this model from now on. Only for functions that run on the engine's thread."""
        self._version = version
        self._take(model)
        self.forget()

    def _take(self, model: PreTrainedModel) -> None:
        self._model, self._one_by_one = model, model.config._attn_implementation != ATTENTION

    def forget(self) -> None:
        """Release the memory of the rows. Only for functions that run on the engine's thread."""
        self._rows.clear()
        for row in self._places:
            row.tokens, row.computed, row.logits, row.cache = row.tokens[:0], 0, None, None

    def close(self) -> None:
        """End the thread. Open requests are cancelled."""
        self._closed = True
        self._asked.put(None)
        if self._thread is not None:
            self._thread.join()

    def _put(self, item: Job | _Call) -> None:
        if self._closed:
            raise AgentfwError("this policy is closed", fix="create a new one")
        if self._thread is None:
            # A daemon, so that the program can end even if a policy isn't closed.
            self._thread = threading.Thread(target=self._work, name="agentfw generation", daemon=True)
            self._thread.start()
        self._asked.put(item)

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        import torch

        with torch.inference_mode():
            while self._listen():
                if self._waiting and isinstance(self._waiting[0], _Call) and not self._busy():
                    self._answer(self._waiting.popleft())
                    continue
                try:
                    self._admit()
                    if self._busy():
                        self._step()
                except Exception as error:
                    self._fail(error)  # there, because what this method's variables hold is kept
        for item in [*(job for _, job in self._busy()), *self._waiting]:
            item.future.cancel()

    def _listen(self) -> bool:
        """Take new requests. Wait for one if there is nothing else to do. False if the engine should end."""
        while True:
            try:
                item = self._asked.get(block=not (self._busy() or self._waiting))
            except queue.Empty:
                return True
            if item is None:
                return False
            self._waiting.append(item)

    def _answer(self, call: Any) -> None:
        if not call.future.set_running_or_notify_cancel():
            return
        try:
            call.future.set_result(call.run())
        except Exception as error:
            call.future.set_exception(self._explained(error))

    def _fail(self, error: Exception) -> None:
        """After an error in a pass, fail all requests and start afresh for later ones."""
        for row, job in self._busy():
            self._refuse(row, job, self._explained(error))
        self.forget()

    def _refuse(self, row: _Row, job: Job, error: Exception) -> None:
        if job.future.set_running_or_notify_cancel():
            job.future.set_exception(error)
        self._leave(row)

    def _explained(self, error: Exception) -> Exception:
        import torch

        if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error):
            return AgentfwError(
                f"out of memory while generating with {self._rows.most} rows: {str(error).splitlines()[0]}",
                fix="lower policy.batch or policy.context, or use fewer bits with policy.precision",
            )
        return error

    # -- who is in -----------------------------------------------------------------------------------------------------

    def _busy(self) -> list[tuple[_Row, Job]]:
        return [(row, row.job) for row in self._places if row.job is not None]

    def _admit(self) -> None:
        """Assign rows to waiting jobs in order, up to a call, which later jobs must not overtake.

        Jobs whose prompt is known get their first token.
        """
        import torch

        put_off: list[Job | _Call] = []
        room = len(self._places) - len(self._busy())
        while self._waiting and isinstance(self._waiting[0], Job) and room:
            job = self._waiting.popleft()
            assert isinstance(job, Job)
            if job.future.cancelled():
                continue
            if self._place(job):
                room -= 1
            else:
                put_off.append(job)
        self._waiting.extendleft(reversed(put_off))
        known = [(row, job) for row, job in self._busy() if row.logits is not None and not job.token_ids]
        if known:
            self._draw(known, torch.stack([row.logits for row, _ in known]))

    def _place(self, job: Job) -> bool:
        """Put a job into a row. False if it should wait until another row has computed its prefix."""
        shared = [0 if self._one_by_one else row.shares(job.tokens, job.adapter) for row in self._places]
        ready = [row.ready(length) for length, row in zip(shared, self._places, strict=True)]
        best = max(range(len(ready)), key=ready.__getitem__)
        in_the_making = [length for length, row in zip(shared, self._places, strict=True) if row.job is not None]
        if max(in_the_making, default=0) > ready[best]:
            return False
        idle = [index for index, row in enumerate(self._places) if row.job is None]
        chosen = best
        if best not in idle or self._places[best].computed - ready[best] >= BLOCK:
            # If the row's content is still useful, continue on a copy.
            others = [index for index in idle if index != best] or idle
            chosen = min(others, key=lambda index: self._places[index].used)
            if chosen != best and ready[best]:
                self._rows.copy(best, chosen, ready[best])
        row, source = self._places[chosen], self._places[best]
        row.logits = source.logits if ready[best] == len(job.tokens) else None
        row.tokens, row.adapter, row.computed, row.job = job.tokens, job.adapter, ready[best], job
        return True

    def _leave(self, row: _Row) -> None:
        self._clock += 1
        row.job, row.used, row.cache = None, self._clock, None

    # -- one pass ----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """One forward pass for each adapter that rows are computed with."""
        for row, job in self._busy():
            if job.future.cancelled():
                self._leave(row)
        for adapter in dict.fromkeys(row.adapter for row, _ in self._busy()):
            model = self.model(adapter)
            if self._one_by_one:
                self._step_one_by_one(model, adapter)
            else:
                self._pass(model, adapter)

    def _pass(self, model: PreTrainedModel, adapter: str) -> None:
        """Compute a part of each prompt that isn't computed yet, and one token for all other rows."""
        import torch

        busy = [index for index, row in enumerate(self._places) if row.job is not None]
        if 2 * blocks(len(busy)) <= blocks(busy[-1] + 1):  # a pass covers all rows up to the last busy one
            for target, index in enumerate(busy):
                if target != index:
                    one, two = self._places[target], self._places[index]
                    self._rows.swap(target, index, max(one.computed, two.length))
                    self._places[target], self._places[index] = two, one
        asking, tokens, positions, plan = self._planned(adapter)
        if not tokens:
            return
        last = max(index for index, row in enumerate(self._places) if row.job is not None)
        self._rows.reserve(last, max(positions) + 1)
        asked = [place for _, _, place in asking]
        kept = asked + [0] * (blocks(len(asked)) - len(asked))
        logits = model(
            torch.tensor([tokens], device=model.device),
            position_ids=torch.tensor([positions], device=model.device),
            use_cache=False,
            logits_to_keep=torch.tensor(kept, dtype=torch.long, device=model.device),
            agentfw_plan=plan,
        ).logits[0, : len(asked)]
        for (row, job, _), found in zip(asking, logits, strict=True):
            if not job.token_ids:
                row.logits = found.clone()  # a slice would keep all rows' in memory
        if asking:
            self._draw([(row, job) for row, job, _ in asking], logits)

    def _step_one_by_one(self, model: PreTrainedModel, adapter: str) -> None:
        """One token for each row: after its whole prompt, or after its last token."""
        import torch

        busy, logits = [(row, job) for row, job in self._busy() if row.adapter == adapter], []
        for row, job in busy:
            new = row.tokens.tolist() if row.cache is None else job.token_ids[-1:]
            found = model(
                torch.tensor([new], device=model.device), past_key_values=row.cache, use_cache=True, logits_to_keep=1
            )
            row.cache = found.past_key_values
            logits.append(found.logits[0])
        if busy:
            self._draw(busy, torch.cat(logits))

    def _planned(self, adapter: str) -> tuple[list[tuple[_Row, Job, int]], list[int], list[int], Plan]:
        """The rows that get a token from the next pass, and from where in it, its tokens, and their positions."""
        asking: list[tuple[_Row, Job, int]] = []
        tokens: list[int] = []
        positions: list[int] = []
        segments: list[Segment] = []
        last: dict[int, Job] = {}  # of the rows that are being continued
        for index, row in enumerate(self._places):
            job = row.job
            if row.adapter != adapter or job is None:
                continue
            length = min(_PROMPT_TOKENS - len(tokens), len(row.tokens) - row.computed)
            if job.token_ids:
                last[index] = job
            elif length > 0:
                end, padded = row.computed + length, blocks(length)
                if end == len(row.tokens):
                    asking.append((row, job, len(tokens) + length - 1))
                segments.append(Segment(index, row.computed, padded))
                tokens += [*row.tokens[row.computed : end].tolist(), *[0] * (padded - length)]
                positions += range(row.computed, row.computed + padded)
                row.computed = end
        ends = [-1] * blocks(max(last, default=-1) + 1)
        for index, job in last.items():
            asking.append((self._places[index], job, len(tokens) + index))
            ends[index] = self._places[index].length - 1
        tokens += [last[index].token_ids[-1] if index in last else 0 for index in range(len(ends))]
        positions += [max(end, 0) for end in ends]
        return asking, tokens, positions, Plan(self._rows, segments, ends)

    def _constrained(self, busy: list[tuple[_Row, Job]], logits: Any) -> tuple[list[tuple[_Row, Job]], Any]:
        """The rows that go on, and their logits without the tokens that their constraints rule out."""
        places: list[int] = []
        for place, (row, job) in enumerate(busy):
            if job.constraint is not None:
                try:
                    if job.token_ids:
                        job.constraint.take(job.token_ids[-1])
                    allowed = job.constraint.allowed(logits.shape[-1]).to(logits.device)
                except AgentfwError as error:  # of this answer alone
                    self._refuse(row, job, error)
                    continue
                logits[place].masked_fill_(~allowed, float("-inf"))
            places.append(place)
        return [busy[place] for place in places], logits if len(places) == len(busy) else logits[places]

    def _draw(self, busy: list[tuple[_Row, Job]], logits: Any) -> None:
        busy, logits = self._constrained(busy, logits)
        if not busy:
            return
        token_ids, logprobs = draw(
            logits,
            [job.drawing.temperature for _, job in busy],
            [job.drawing.top_p for _, job in busy],
            [float(job.numbers.random()) for _, job in busy],
        )
        for (row, job), token, logprob in zip(busy, token_ids, logprobs, strict=True):
            if logprob != logprob:  # NaN
                wrong = "the model's logits are NaN: its weights are broken"
                fix = "go back to an earlier checkpoint, and train with a lower learning rate"
                self._refuse(row, job, AgentfwError(wrong, fix=fix))  # others may have another adapter
                continue
            job.token_ids.append(token)
            job.logprobs.append(logprob)
            ended = job.heard is not None and job.heard(token)
            stopped = token in self._end_ids or ended
            if stopped or len(job.token_ids) >= job.drawing.limit:
                self._leave(row)
                if job.future.set_running_or_notify_cancel():
                    finish = "stop" if stopped else "length"
                    job.future.set_result(Sampled(tuple(job.token_ids), tuple(job.logprobs), finish, self._version))
