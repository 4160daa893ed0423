"""The weights of the policy `transformers`: the base, the base with an adapter, or another full model.

A version is served completely or not at all. In fp32 an adapter is merged into a copy of the base, which costs nothing
during generation and is as precise as the base. With fewer bits, merging would round away what was learned, so the
adapter stays separate. So do adapters that are served beside each other (`add`, `use`).

On a CPU, two parts of a model are computed in another way than by transformers:

- An expert gets as many tokens as choose it, so what it computes of one would depend on the others in its last bits.
  Each expert's tokens are filled up to whole blocks, as all tokens of a pass are (transformers_rows).
- The output head is computed for a few thousand words at a time. MKL copies weights into another order before it
  multiplies with them, and the copy of a part stays in the processor's caches. Each logit is the same to the last bit.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentfw.errors import SettingsError

from ..policies.local.transformers_rows import BLOCK
from . import Precision, has_weights, load_base, other_layers, own_attention
from .base import computed_like_base, own_copies, to_bf16

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


class Weights:
    def __init__(self, base: Path, precision: Precision, device: str, attention: str) -> None:
        self.base, self.precision, self.device, self.attention = base, precision, device, attention
        self._tuned: Any = None  # the base with separate adapters
        self._count = 0

    def of(self, adapter: Path | None) -> PreTrainedModel:
        """The base, the base with an adapter, or the full model in a folder."""
        if adapter is None:
            return self._loaded(self.base)
        if not (adapter / "adapter_config.json").is_file():
            if not ((adapter / "config.json").is_file() and has_weights(adapter)):
                raise SettingsError(
                    f"{adapter} is neither an adapter nor a model",
                    fix="it must contain adapter_config.json and adapter_model.safetensors, or config.json and weights",
                )
            self._tuned = None
            return self._loaded(adapter)
        if self.precision == "fp32" or (self.precision == "auto" and self.device == "cpu"):
            apart = Weights(self.base, self.precision, self.device, self.attention)
            apart.add(adapter)
            own_copies(apart._tuned)  # of what is merged into, because the base is shared
            merged: PreTrainedModel = apart._tuned.merge_and_unload().eval()
            return merged
        before = [] if self._tuned is None else [*self._tuned.peft_config]
        name = self.add(adapter)
        for old in before:
            self.remove(old)
        return self.use(name)

    def _loaded(self, folder: Path) -> PreTrainedModel:
        model = load_base(folder, self.precision, self.device, attention=self.attention)
        if other_layers(model.config) or not model._supports_attention_backend:
            model.set_attn_implementation(own_attention(model))  # the engine computes row by row then
        if self.device != "cpu":
            return model
        import torch
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

        ALL_EXPERTS_FUNCTIONS.register(_NAME, _experts)
        if model._can_set_experts_implementation():
            model.set_experts_implementation(_NAME)
        for name, module in model.named_modules():
            if name.endswith("shared_expert_gate"):
                # The gate is one number per token. Torch computes the end of a row of numbers in another way than the
                # rest, so a function of them would depend on how many tokens there are, unless each is as wide as what
                # it gates.
                module.register_forward_hook(lambda _, inputs, output: output.expand(inputs[0].shape).contiguous())
        head: Any = model.get_output_embeddings()
        if type(head) is torch.nn.Linear and head.bias is None and head.weight.dtype == torch.float32:
            head.forward = partial(_in_parts, head)
        return model

    def use(self, name: str) -> PreTrainedModel:
        """The model with one of the adapters that stay separate."""
        if self._tuned.active_adapter != name:
            self._tuned.set_adapter(name)
        return self._tuned.base_model.model.eval()

    def remove(self, name: str) -> None:
        if others := [other for other in self._tuned.peft_config if other != name]:
            self.use(others[-1])
        self._tuned.delete_adapter(name)
        if not others:
            self._tuned = None

    def add(self, adapter: Path) -> str:
        """Load an adapter beside others of the same base. Returns its name here."""
        from peft import PeftModel, get_peft_model_state_dict
        from safetensors import safe_open

        self._count += 1
        name = f"served{self._count}"  # PEFT doesn't allow dots in a name, but versions may have some
        before = self._tuned
        try:
            if before is None:
                tuned = PeftModel.from_pretrained(self.of(None), adapter, adapter_name=name)
            else:
                tuned = before
                tuned.load_adapter(adapter, adapter_name=name)
            # Raise if PEFT ignored tensors on either side, for which it only gives a warning.
            with safe_open(adapter / "adapter_model.safetensors", "pt") as file:
                given = set(file.keys())
            wanted = set(get_peft_model_state_dict(tuned, adapter_name=name))
            if given != wanted:
                lacks, extra = sorted(wanted - given), sorted(given - wanted)
                raise ValueError(
                    f"it lacks {len(lacks)} tensors and has {len(extra)} unknown ones, such as {(lacks + extra)[0]}"
                )
        except (KeyError, RuntimeError, ValueError) as error:
            if before is not None and name in before.peft_config:
                before.delete_adapter(name)
            wrong = f"the adapter {adapter} doesn't fit the model {self.base}: {str(error).splitlines()[0]}"
            raise SettingsError(wrong, fix="publish an adapter that was trained on this model") from error
        to_bf16(computed_like_base(tuned, name))
        self._tuned = tuned
        return name


_NAME = "agentfw_blocks"  # name of this way of computing experts in transformers
_WORDS = 2048  # tokens of the vocabulary in a part of the head


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


def _in_parts(head: Any, hidden: Tensor) -> Tensor:
    """Logits [..., vocabulary] of hidden states [..., width]."""
    import torch

    rows = hidden.flatten(0, -2)
    logits = rows.new_empty(len(rows), head.out_features)
    for start in range(0, head.out_features, _WORDS):
        words = slice(start, start + _WORDS)
        torch.mm(rows, head.weight[words].T, out=logits[:, words])
    return logits.unflatten(0, hidden.shape[:-1])
