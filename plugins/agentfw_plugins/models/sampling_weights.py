"""The weights of the policy `transformers`: the base, the base with an adapter, or another full model.

A version is served completely or not at all. An adapter that doesn't match its base in every tensor is an error, and
the previous version stays in use.

In fp32 an adapter is merged into a freshly loaded base, which costs nothing during generation and is as precise as the
base. With fewer bits, merging would round away what was learned, so the adapter stays separate.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentfw.errors import MissingExtraError, SettingsError

from . import Precision, has_weights, load_base, other_layers, own_attention
from .expert_blocks import use_blocks
from .output_head import use_parts
from .shared_weights import let_go, own_copies

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["Weights"]


class Weights:
    """Loads the weights to serve."""

    def __init__(self, base: Path, precision: Precision, device: str, attention: str) -> None:
        self.base, self.precision, self.device, self.attention = base, precision, device, attention
        self._tuned: Any = None  # the base with a separate adapter; not in fp32
        self._count = 0

    def of_base(self) -> PreTrainedModel:
        return self._loaded(self.base)

    def of(self, adapter: Path) -> PreTrainedModel:
        """The model with an adapter, or the full model in a folder."""
        if (adapter / "adapter_config.json").is_file():
            return self._adapted(adapter)
        if (adapter / "config.json").is_file() and has_weights(adapter):
            self._tuned = None
            return self._loaded(adapter)
        raise SettingsError(
            f"{adapter} is neither an adapter nor a model",
            fix="it must contain adapter_config.json and adapter_model.safetensors, or config.json and weights",
        )

    def _loaded(self, folder: Path) -> PreTrainedModel:
        model = load_base(folder, self.precision, self.device, attention=self.attention)
        if other_layers(model.config) or not model._supports_attention_backend:
            model.set_attn_implementation(own_attention(model))  # the engine computes row by row then
        if self.device == "cpu":
            use_blocks(model)
            use_parts(model)
        return model

    def _adapted(self, adapter: Path) -> PreTrainedModel:
        try:
            from peft import PeftModel
        except ImportError as error:
            raise MissingExtraError("an adapter in this process", "train", module=error.name or "") from None

        merged = self.precision == "fp32" or (self.precision == "auto" and self.device == "cpu")
        self._count += 1
        name = f"served{self._count}"  # PEFT doesn't allow dots in a name, but versions may have some
        before = None if merged else self._tuned
        try:
            if before is None:
                tuned = PeftModel.from_pretrained(self.of_base(), adapter, adapter_name=name)
            else:
                tuned = before
                tuned.load_adapter(adapter, adapter_name=name)
            _check(tuned, adapter, name)
        except (KeyError, RuntimeError, ValueError) as error:
            if before is not None and name in before.peft_config:
                before.delete_adapter(name)
            raise SettingsError(
                f"the adapter {adapter} doesn't fit the model {self.base}: {str(error).splitlines()[0]}",
                fix="publish an adapter that was trained on this model",
            ) from error
        if merged:
            own_copies(tuned)  # of what is merged into, because the base is shared
            return let_go(tuned.merge_and_unload().eval())
        tuned.set_adapter(name)
        for old in [other for other in tuned.peft_config if other != name]:
            tuned.delete_adapter(old)
        self._tuned = tuned
        return tuned.base_model.model.eval()


def _check(tuned: Any, adapter: Path, name: str) -> None:
    """Raise if PEFT ignored tensors on either side, for which it only gives a warning."""
    from peft import get_peft_model_state_dict
    from safetensors import safe_open

    with safe_open(adapter / "adapter_model.safetensors", "pt") as file:
        given = set(file.keys())
    wanted = set(get_peft_model_state_dict(tuned, adapter_name=name))
    if given != wanted:
        lacks, extra = sorted(wanted - given), sorted(given - wanted)
        raise ValueError(
            f"it lacks {len(lacks)} tensors and has {len(extra)} unknown ones, such as {(lacks + extra)[0]}"
        )
