"""The experts of a mixture of experts for the policy `transformers` on a CPU.

An expert gets as many tokens as choose it, so what it computes of one would depend on the others in the batch in its
last bits. Here each expert's tokens are filled up to whole blocks, as all tokens of a pass are (transformers_rows). The
computation itself is transformers'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..policies.local.transformers_rows import BLOCK

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

__all__ = ["use_blocks"]

_NAME = "agentfw_blocks"


def use_blocks(model: PreTrainedModel) -> None:
    """Let the experts of this model, if it has any, compute whole blocks."""
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ALL_EXPERTS_FUNCTIONS.register(_NAME, _experts)
    if model._can_set_experts_implementation():
        model.set_experts_implementation(_NAME)
    for name, module in model.named_modules():
        if name.endswith("shared_expert_gate"):
            module.register_forward_hook(_widened)


def _widened(_module: Any, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """The gate of a shared expert, one number per token, as wide as what it is multiplied with.

    Torch computes the end of a row of numbers in another way than the rest. So a function of one number per token
    would depend on how many tokens there are.
    """
    return output.expand(inputs[0].shape).contiguous()


def _experts(module: Any, states: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """What transformers calls. States [tokens, width], the chosen experts and their weights [tokens, chosen]."""
    import torch
    from transformers.integrations.moe import grouped_mm_experts_forward

    tokens, count = chosen.shape
    experts = chosen.flatten()
    missing = -torch.bincount(experts, minlength=module.num_experts) % BLOCK
    filler = torch.arange(len(missing), device=experts.device).repeat_interleave(missing)
    found = grouped_mm_experts_forward(
        module,
        torch.cat([states.repeat_interleave(count, 0), states.new_zeros(len(filler), states.shape[1])]),
        torch.cat([experts, filler])[:, None],
        torch.cat([weights.flatten(), weights.new_zeros(len(filler))])[:, None],
    )
    return found[: len(experts)].unflatten(0, (tokens, count)).sum(1)
