"""Writes a model as a folder that plain transformers, and any other program, can load.

`save_pretrained` refuses models that were loaded from fewer bits, and what they stand for is what is written here.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["copy_but_weights", "write_plain"]


def copy_but_weights(folder: Path, target: Path) -> None:
    """Copy tokenizer, template and configuration of a model folder."""
    for path in folder.iterdir():
        if path.is_file() and ".safetensors" not in path.name:
            shutil.copyfile(path, target / path.name)


def write_plain(model: Any, tensors: Mapping[str, Any], target: Path) -> None:
    """Write the configuration of a model without its quantization, and tensors in place of its weights."""
    from huggingface_hub import save_torch_state_dict

    config = model.config.to_dict()
    config.pop("quantization_config", None)
    # `save_pretrained` of a model would add its class. Without it, vLLM takes some models for embedding models.
    config["architectures"] = config.get("architectures") or [type(model).__name__]
    type(model.config)(**config).save_pretrained(target)
    save_torch_state_dict(dict(tensors), target)
