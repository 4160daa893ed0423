"""Finds the folder of a model.

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

from pathlib import Path

from agentfw.errors import DuplicateComponentError, SettingsError
from agentfw.metadata import entry_points

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
    if not folder.is_dir():
        raise SettingsError(
            f"there is no model folder {model}",
            fix=f"use a Hugging Face model folder (hf download ORG/NAME --local-dir NAME), "
            f"or an installed model: {', '.join(installed)}",
        )
    missing = [name for name in _REQUIRED if not (folder / name).is_file()]
    if missing:
        raise SettingsError(
            f"{model} is not a model folder: it has no {' and no '.join(missing)}",
            fix="use a Hugging Face model folder; for an adapter, use the folder of its base",
        )
    return folder.resolve()


def _installed() -> dict[str, list[Path]]:
    """The folders of all models that distributions bring, by name."""
    found: dict[str, list[Path]] = {}
    for entry in entry_points("agentfw.models"):
        package = entry.folder()
        for config in sorted(package.glob("*/config.json")) if package is not None else ():
            found.setdefault(config.parent.name, []).append(config.parent)
    return found
