"""The output head of the policy `transformers` on a CPU: a few thousand words at a time.

MKL copies weights into another order before it multiplies with them. The copy of a part stays in the processor's
caches, that of a whole head doesn't. Each logit is the same sum as before, to the last bit.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

__all__ = ["use_parts"]

_WORDS = 2048


def use_parts(model: PreTrainedModel) -> None:
    """Let the head of this model compute its logits in parts, if it is plain and in fp32."""
    import torch

    head: Any = model.get_output_embeddings()
    if type(head) is torch.nn.Linear and head.bias is None and head.weight.dtype == torch.float32:
        head.forward = partial(_in_parts, head)


def _in_parts(head: Any, hidden: Tensor) -> Tensor:
    """Logits [..., vocabulary] of hidden states [..., width]."""
    import torch

    rows = hidden.flatten(0, -2)
    logits = rows.new_empty(len(rows), head.out_features)
    for start in range(0, head.out_features, _WORDS):
        words = slice(start, start + _WORDS)
        torch.mm(rows, head.weight[words].T, out=logits[:, words])
    return logits.unflatten(0, hidden.shape[:-1])
