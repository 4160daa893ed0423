"""Finds the folder of a model, or makes it of a GGUF file.

The folder is checked here, before anything heavy is loaded.

    >>> locate("no/such/folder")
    Traceback (most recent call last):
    ...
    agentfw.errors.SettingsError: there is no model folder no/such/folder

Models that come with a distribution are found by name. An entry point of the group `agentfw.models` names a package,
and each model is a folder in it. Nothing is imported for that.

    [project.entry-points."agentfw.models"]
    shop = "shop_agents.models"
"""

from __future__ import annotations

import json
from pathlib import Path

from agentfw.boundary.metadata import entry_points
from agentfw.errors import DuplicateComponentError, SettingsError

from .gguf_file import gguf_folder, is_gguf

__all__ = ["locate"]

_REQUIRED = ("config.json", "tokenizer.json")


def locate(model: str) -> Path:
    """The folder of a model: one that is installed by name, any other by path."""
    installed = _installed()
    found = installed.get(model, [])
    if len(found) > 1:
        raise DuplicateComponentError(
            f'the model "{model}" is there twice: {" and ".join(map(str, found))}', fix="name one of them by its path"
        )
    folder = found[0] if found else Path(model).expanduser()
    if is_gguf(folder):
        return gguf_folder(folder.resolve())
    if not folder.is_dir():
        raise SettingsError(
            f"{model} is a file, but not in the format GGUF"
            if folder.is_file()
            else f"there is no model folder {model}",
            fix=f"use a Hugging Face model folder (hf download ORG/NAME --local-dir NAME), a GGUF file, "
            f"or an installed model: {', '.join(installed)}",
        )
    if (folder / "adapter_config.json").is_file():
        base = _base_of(folder)
        raise SettingsError(
            f"{model} is an adapter of {base or 'a model that it does not name'}, and no model",
            fix=f"set policy.model={base or 'FOLDER (its base)'} and policy.adapter={model}",
        )
    if (folder / "run.json").is_file():
        raise SettingsError(f"{model} is a run, and no model", fix=f"its policy is meant by: --policy {model}")
    missing = [name for name in _REQUIRED if not (folder / name).is_file()]
    if missing:
        raise SettingsError(
            f"{model} is not a model folder: it has no {' and no '.join(missing)}",
            fix="use a Hugging Face model folder",
        )
    return folder.resolve()


def _base_of(adapter: Path) -> str:
    """What an adapter says that it was trained on; empty if it doesn't."""
    try:
        return str(
            json.loads((adapter / "adapter_config.json").read_text("utf-8")).get("base_model_name_or_path") or ""
        )
    except (OSError, ValueError, AttributeError):
        return ""


def _installed() -> dict[str, list[Path]]:
    """The folders of all models that distributions bring, by name."""
    found: dict[str, list[Path]] = {}
    for entry in entry_points("agentfw.models"):
        package = entry.folder()
        for config in sorted(package.glob("*/config.json")) if package is not None else ():
            found.setdefault(config.parent.name, []).append(config.parent)
    return found
