"""Says how far back each layer of a model sees, and which models have layers that see otherwise.

The rule is that of transformers' `create_masks_for_generate`. It is read from the configuration, because not every
model passes its window to its attention (Qwen2Moe doesn't).

    window = window_of(module.config, module.layer_idx)      # None: everything
"""

from __future__ import annotations

from typing import Any

__all__ = ["other_layers", "window_of"]

_SLIDING = "sliding_attention"


def other_layers(config: Any) -> list[str]:
    """Kinds of layers that have neither full attention nor a sliding window, such as linear or chunked attention."""
    text = config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ()) - {"full_attention", _SLIDING}
    # The same size of chunks is kept by models that have layer_types, and then it says nothing.
    if not getattr(text, "layer_types", None) and getattr(text, "attention_chunk_size", None):
        kinds.add("chunked_attention")
    return sorted(kinds)


def window_of(config: Any, layer: int) -> int | None:
    """Number of tokens that a layer sees, the token itself included. None if it sees all."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    if kinds and kinds[layer] != _SLIDING:
        return None
    return getattr(text, "sliding_window", None) or None
