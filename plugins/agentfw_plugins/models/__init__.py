"""Language models in folders: finding them, building their prompts, and loading their weights.

A model is a local folder in the Hugging Face format (config.json, tokenizer.json, a chat template, weights as
safetensors). Nothing here downloads anything.

    folder = locate("tiny")
    chat = Chat(folder)
    model = load_base(folder, "fp32", "cpu")

Policies and learners both use this package, so that they produce the same tokens and load the same weights.
"""

from __future__ import annotations

from .base import (
    Device,
    Precision,
    choose_device,
    computed_in,
    fix_order_of_adding,
    has_weights,
    load_base,
    other_layers,
    own_attention,
    require_loadable,
    require_trainable,
)
from .chat import Chat
from .checkpoint import Start, check_adapter
from .locate import locate

__all__ = [
    "Chat",
    "Device",
    "Precision",
    "Start",
    "check_adapter",
    "choose_device",
    "computed_in",
    "fix_order_of_adding",
    "has_weights",
    "load_base",
    "locate",
    "other_layers",
    "own_attention",
    "require_loadable",
    "require_trainable",
]
