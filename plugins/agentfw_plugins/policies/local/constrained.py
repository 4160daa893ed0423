"""Answers that follow a JSON schema: which tokens may come next, from the library llguidance.

The tokens that the schema rules out are left out before a token is drawn, so its logprob is that of the distribution
that is left. A learner can't compute it: it would need the schema. So such turns are marked (`Turn.constrained`), and
losses that weigh tokens by these logprobs refuse them, as they refuse those of a smaller `top_p`.

    schemas = Schemas(chat.tokenizer_json(), chat.end_ids)
    constraint = schemas.constraint({"type": "object"})
    constraint.allowed(logits.shape[-1]), constraint.take(token)
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy

from agentfw.errors import AgentfwError, MissingExtraError, RequestRefusedError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Constraint", "Schemas"]

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
        """Go on with the token that was drawn."""
        self._matcher.consume_token(token)
        self._check()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise _refused(self._matcher.get_error())


class Schemas:
    """Makes constraints for the tokens of one model. Making it takes about a second for a large vocabulary."""

    def __init__(self, tokenizer_json: str, end_ids: Collection[int]) -> None:
        try:
            from llguidance import LLMatcher, LLTokenizer
        except ImportError as error:
            raise MissingExtraError("an answer by a JSON schema", "train", module=error.name or "") from None
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
