"""How an answer of a local model is drawn: with one seed per answer and one random number per token.

An answer depends only on its own request. Its seed is derived from the run's seed, the task and the prompt, so neither
the order of requests nor other answers in the batch change it.

A token's logprob is that of the distribution it was sampled from, with temperature and top_p. At temperature 0 every
token would have probability 1, which contains no information, so there the logprob is the model's own.

Answers that follow a JSON schema are held to it by the library llguidance: tokens that the schema rules out are left
out before a token is drawn. A learner can't compute such logprobs, so these turns are marked (`Turn.constrained`).
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy

from agentfw import Generation, Request
from agentfw.boundary.gate import needing
from agentfw.episode import Usage
from agentfw.errors import AgentfwError, RequestRefusedError, SettingsError
from agentfw.seeds import Seeds

from ...models import Chat

if TYPE_CHECKING:
    from torch import Tensor

    from ...models.small_model import SmallChat

_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 26}
"""Maximum number of logits to draw from at once. On a CPU few, so that their copies stay in its caches."""
_STRETCH = 512
_COLDEST = 1e-30  # no lower temperature but 0 itself: logits that are divided by it would be infinite


@dataclass(frozen=True, slots=True)
class Sampled:
    """Sampled tokens, their logprobs in the distribution they were sampled from, and the model's version."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: str
    version: str
    cached: int | None = None
    """Tokens of the prompt that came from a cache; None where that isn't known, or depends on other requests."""


@dataclass(frozen=True, slots=True)
class Drawing:
    prompt: tuple[int, ...]
    limit: int
    temperature: float
    top_p: float
    seed: int

    @classmethod
    def of(
        cls,
        request: Request,
        prompt: tuple[int, ...],
        *,
        model: str,
        context: int,
        limit: int,
        temperature: float = 1.0,
    ) -> Self:
        """As the request wants it, or else by the settings. Raises if the model can't read the prompt."""
        if not prompt:
            wrong = f"task {request.task.id}: the prompt has no token that the model {model} could go on from"
            raise AgentfwError(wrong, fix="ask with a text that isn't empty")
        if (room := context - len(prompt)) < 1:
            raise AgentfwError(
                f"task {request.task.id}: the prompt has {len(prompt)} tokens, and the model {model} reads at most "
                f"{context}",
                fix="set window to keep fewer turns, or use a model with a longer context",
            )
        sampling = request.sampling
        root = request.task.seed if sampling.seed is None else sampling.seed
        heat = temperature if sampling.temperature is None else sampling.temperature
        shown = hashlib.sha256(array("q", prompt).tobytes()).hexdigest()
        return cls(
            prompt,
            min(sampling.max_tokens or limit, room),
            heat and max(heat, _COLDEST),
            1.0 if sampling.top_p is None else sampling.top_p,
            Seeds(root).integer("answer", request.task.id, shown),
        )

    def generation(self, chat: Chat | SmallChat, sampled: Sampled, *, constrained: bool = False) -> Generation:
        pieces = chat.pieces(sampled.token_ids)
        return Generation(
            text="".join(pieces),
            prompt_ids=self.prompt,
            token_ids=sampled.token_ids,
            logprobs=sampled.logprobs,
            pieces=pieces,
            in_text=chat.in_text(sampled.token_ids, pieces),
            version=sampled.version,
            finish=sampled.finish,
            temperature=self.temperature,
            top_p=self.top_p,
            constrained=constrained,
            usage=Usage(prompt=len(self.prompt), cached=sampled.cached, sampled=len(sampled.token_ids)),
        )


def require_readable(
    prompt_ids: Sequence[int], token_ids: Sequence[int], *, model: str, vocabulary: int, context: int
) -> None:
    """Refuse tokens that a model can't give the logprobs of."""
    ids = [*prompt_ids, *token_ids]
    if not prompt_ids or not token_ids or not 0 <= min(ids) <= max(ids) < vocabulary or len(ids) > context:
        raise SettingsError(
            f"the model {model} can't score these {len(ids)} tokens: its vocabulary is {vocabulary}, its context "
            f"{context} tokens, and a prompt is needed",
            fix="pass tokens that this model generated",
        )


def draw(
    logits: Tensor, temperatures: Sequence[float], top_ps: Sequence[float], numbers: Sequence[float]
) -> tuple[list[int], list[float]]:
    """Sample a token for each row of logits [rows, vocabulary]. Returns the tokens and their logprobs.

    `numbers` are uniform random numbers from 0 to 1, one per row. A temperature of 0 takes the likeliest token.
    """
    size = max(1, _ELEMENTS[logits.device.type] // logits.shape[-1])
    parts = [slice(start, start + size) for start in range(0, len(logits), size)]
    drawn = [_draw(logits[some], temperatures[some], top_ps[some], numbers[some]) for some in parts]
    return [token for ids, _ in drawn for token in ids], [value for _, logprobs in drawn for value in logprobs]


def _draw(
    logits: Tensor, temperatures: Sequence[float], top_ps: Sequence[float], numbers: Sequence[float]
) -> tuple[list[int], list[float]]:
    import torch

    wide = {"dtype": torch.float64, "device": logits.device}
    heat = torch.tensor([temperature or 1.0 for temperature in temperatures], **wide)[:, None]
    rows, vocabulary = logits.shape
    # In whole stretches, so that only the stretch with the drawn token is looked at token by token.
    likely = logits.new_zeros(rows, -(-vocabulary // _STRETCH) * _STRETCH, dtype=torch.float32)
    chances = likely[:, :vocabulary]
    top = logits.amax(-1, keepdim=True)
    chances.copy_(logits).sub_(top).div_(heat.float()).exp_()
    for row, temperature, top_p in zip(chances, temperatures, top_ps, strict=True):
        if temperature and top_p < 1.0:
            _keep_nucleus(row, top_p)
    stretches = likely.unflatten(-1, (-1, _STRETCH))
    # Added up in 64 bits, because rounding in 32 bits would change about one draw in a million.
    heights = stretches.sum(-1, dtype=torch.float64).cumsum(-1)
    aims = torch.tensor(numbers, **wide)[:, None] * heights[:, -1:]
    chosen = torch.searchsorted(heights, aims, right=True).clamp_(max=heights.shape[-1] - 1)
    below = torch.where(chosen > 0, heights.gather(-1, (chosen - 1).clamp_(min=0)), 0.0)
    inside = stretches[torch.arange(rows, device=logits.device), chosen[:, 0]].double().cumsum(-1)
    # Below the last height, so that a rounding error never draws a token that has no chance.
    rest = torch.minimum(aims - below, inside[:, -1:] * (1 - 2**-52))
    drawn = (chosen * _STRETCH + torch.searchsorted(inside, rest, right=True)).clamp_(max=vocabulary - 1)
    for row, temperature in enumerate(temperatures):
        if not temperature:
            drawn[row] = logits[row].argmax()
    logprobs = (logits.gather(-1, drawn).double() - top) / heat - heights[:, -1:].log()
    return drawn[:, 0].tolist(), logprobs[:, 0].tolist()


def _keep_nucleus(chances: Tensor, top_p: float) -> None:
    """Set all but the likeliest tokens that together reach `top_p` to zero, and never the likeliest one."""
    total = float(chances.double().sum())
    # Tokens below this have less than 1 - top_p together, so that none of them is among the likeliest.
    (some,) = (chances >= (1 - top_p) * total / len(chances)).nonzero(as_tuple=True)
    ordered, order = chances[some].double().sort(descending=True, stable=True)
    # Compare the mass before each token, so that the token that reaches the limit is included.
    inside = ordered.cumsum(-1) - ordered < top_p * total
    inside[0] = True
    kept = some[order[inside]]
    values = chances[kept]
    chances.zero_()[kept] = values


_SPACE = {"whitespace_pattern": r"[ \n]{0,16}"}
"""Between the parts of an object. Without a bound, a small model may write white space for ever."""


class Constraint:
    """What one answer may still be."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def allowed(self, vocabulary: int) -> Tensor:
        """For each token of the model's vocabulary, whether it may be the next one."""
        import torch

        bits = numpy.frombuffer(self._matcher.compute_bitmask(), dtype=numpy.uint8)
        self._check()
        found = numpy.zeros(vocabulary, dtype=bool)
        known = numpy.unpackbits(bits, bitorder="little")[:vocabulary]
        found[: len(known)] = known
        return torch.from_numpy(found)

    def take(self, token: int) -> None:
        self._matcher.consume_token(token)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise _refused(self._matcher.get_error())


class Schemas:
    """Makes constraints for the tokens of one model. Making it takes about a second for a large vocabulary."""

    def __init__(self, tokenizer_json: str, end_ids: Collection[int]) -> None:
        with needing("an answer by a JSON schema", "train"):
            from llguidance import LLMatcher, LLTokenizer
        self._matcher: Any = LLMatcher
        self._tokenizer = LLTokenizer(tokenizer_json, eos_token=sorted(end_ids))

    def constraint(self, schema: Mapping[str, Any]) -> Constraint:
        """A constraint for one answer. Raises RequestRefusedError for a schema that can't be followed."""
        grammar = self._matcher.grammar_from_json_schema(json.dumps(schema), overrides=_SPACE)
        if problem := self._matcher.validate_grammar(grammar, self._tokenizer):
            raise _refused(problem)
        return Constraint(self._matcher(self._tokenizer, grammar, log_level=0))


def _refused(problem: str) -> AgentfwError:
    words = problem.strip().splitlines()[0][:300]
    return RequestRefusedError(f"the JSON schema of the answer can't be followed: {words}", fix="simplify the schema")


class Telling:
    """The text of one answer, as far as it was told."""

    def __init__(self, chat: Chat, tell: Callable[[str], object], stop: Sequence[str] = ()) -> None:
        self._chat, self._tell, self._stop = chat, tell, [word for word in stop if word]
        self._ids, self._known, self._told = list[int](), 0, ""

    def hear(self, ids: Sequence[int]) -> bool:
        """Take the next tokens. Returns whether the text has one of the texts at which it stops."""
        self._ids += ids
        text = self._told + self._chat.text(self._ids)[len(self._chat.text(self._ids[: self._known])) :]
        # A character that is not complete yet is told with the token that completes it.
        if not text.endswith("\ufffd"):
            self.end(text)
            # The next ones are read behind these alone: some add a space only then.
            self._ids = self._ids[self._known :]
            self._known = len(self._ids)
        return any(word in text for word in self._stop)

    def end(self, text: str) -> None:
        """Tell what was not told of this text so far."""
        if text.startswith(self._told) and text != self._told:
            new, self._told = text[len(self._told) :], text
            self._tell(new)
