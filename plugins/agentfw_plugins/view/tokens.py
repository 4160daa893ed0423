"""The tokens of turns as text, where the tokenizer of the run's model is on this machine.

Elsewhere the ids are shown. The text of a turn is never tokenised again: these are the tokens that were sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..models.conversation import pieces
from ..models.locate import locate

__all__ = ["ShownToken", "shown_tokens"]

_STEPS = (-0.05, -0.3, -0.7, -1.4, -3.0)
"""Logprobs from which a token has the next colour."""


@dataclass(frozen=True)
class ShownToken:
    """A sampled token. `colour` is 0 where it was certain, and 5 where it was unlikely."""

    text: str
    id: int
    logprob: float | None

    @property
    def colour(self) -> int:
        return 0 if self.logprob is None else sum(self.logprob < step for step in _STEPS)


def shown_tokens(about: Mapping[str, Any], ids: Sequence[int], logprobs: Sequence[float] = ()) -> list[ShownToken]:
    """The tokens with their logprobs, if these are known."""
    settings = about.get("settings", {}).get("policy", {})
    texts = _texts(str(settings.get("model", "")), tuple(ids))
    known = logprobs if len(logprobs) == len(ids) else [None] * len(ids)
    return [ShownToken(text, one, logprob) for text, one, logprob in zip(texts, ids, known, strict=True)]


def _texts(model: str, ids: tuple[int, ...]) -> Sequence[str]:
    tokenizer = _tokenizer(model) if model else None
    if tokenizer is None:
        return [f"{one} " for one in ids]
    return pieces(ids, lambda some: str(tokenizer.decode(list(some), skip_special_tokens=False)), ())


@lru_cache(maxsize=8)
def _tokenizer(model: str) -> Any:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(locate(model) / "tokenizer.json"))
    except Exception:  # the library raises plain ones where it can't read a file
        return None
