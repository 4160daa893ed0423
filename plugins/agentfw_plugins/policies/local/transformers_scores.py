"""Logprobs of given answers, as the policy `transformers` serves them: several in one pass of the model.

score(model, [(prompt_ids, token_ids), (other_prompt_ids, other_token_ids)])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .transformers_rows import ATTENTION, blocks

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["score"]

Answer = tuple[Sequence[int], Sequence[int]]
_COMPUTED, _SCORED = 4096, 128
"""Tokens of one pass: all, and those of answers, for each of which the logits of a whole vocabulary are kept."""


def score(model: PreTrainedModel, answers: Sequence[Answer]) -> list[tuple[float, ...]]:
    """The logprobs of each answer's tokens after its prompt."""
    together = model.config._attn_implementation == ATTENTION  # any other would let one answer see the next
    return [found for some in _passes(answers, together) for found in _score(model, some, together)]


def _passes(answers: Sequence[Answer], together: bool) -> Iterator[list[Answer]]:
    some: list[Answer] = []
    for answer in answers:
        more = [*some, answer]
        computed = sum(blocks(len(prompt) + len(tokens)) for prompt, tokens in more)
        scored = sum(len(tokens) for _, tokens in more)
        if some and (not together or computed > _COMPUTED or scored > _SCORED):
            yield some
            more = [answer]
        some = more
    if some:
        yield some


def _score(model: PreTrainedModel, answers: Sequence[Answer], together: bool) -> list[tuple[float, ...]]:
    import torch

    lengths = [blocks(len(prompt) + len(tokens)) for prompt, tokens in answers]
    ids: list[int] = []
    positions: list[int] = []
    kept: list[int] = []
    for (prompt, tokens), length in zip(answers, lengths, strict=True):
        first = len(ids) + len(prompt) - 1
        kept += range(first, first + len(tokens))
        ids += [*prompt, *tokens, *[0] * (length - len(prompt) - len(tokens))]
        positions += range(length)
    # In whole blocks, too: with fewer rows, some processors' kernels add the logits in another order.
    scored = len(kept)
    kept += kept[-1:] * (blocks(scored) - scored)
    logits = model(
        torch.tensor([ids], device=model.device),
        position_ids=torch.tensor([positions], device=model.device),
        use_cache=False,
        logits_to_keep=torch.tensor(kept, device=model.device),
        **({"agentfw_lengths": lengths} if together else {}),
    ).logits[0, :scored]
    sampled = torch.tensor([token for _, tokens in answers for token in tokens], device=logits.device)
    found = (logits.gather(-1, sampled[:, None])[:, 0].float() - logits.float().logsumexp(-1)).tolist()
    values = iter(found)
    return [tuple(next(values) for _ in tokens) for _, tokens in answers]
