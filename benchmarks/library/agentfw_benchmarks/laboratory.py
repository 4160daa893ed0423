"""Small language models made on the spot, by the plugin `agentfw-laboratory` of the tests."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from .places import SITE


def make_model(folder: Path, **changes: Any) -> Path:
    """Make a tiny Llama with drawn weights, in the form of Hugging Face. `changes` are keys of its config."""
    made: Path = _models().make_model(folder, **changes)
    return made


def model_size(*, hidden: int, inner: int, layers: int, heads: int, key_heads: int, **more: Any) -> dict[str, Any]:
    """The keys of a model's config that say how large it is, and more of them."""
    size = {"hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers}
    return {**size, "num_attention_heads": heads, "num_key_value_heads": key_heads, **more}


@cache
def _models() -> ModuleType:
    # By its file: with the folder on the path, every host of this process would find the plugin.
    spec = importlib.util.spec_from_file_location(
        "agentfw_laboratory_models", SITE / "agentfw_laboratory" / "models.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
