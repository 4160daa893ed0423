"""Finds the folder of a model.

The folder is checked here, before anything heavy is loaded.

    >>> locate("no/such/folder")
    Traceback (most recent call last):
    ...
    agentfw.errors.SettingsError: there is no model folder no/such/folder
"""

from __future__ import annotations

from pathlib import Path

from agentfw.errors import SettingsError

__all__ = ["locate"]

_SHIPPED = {
    name: Path(__file__).parent / name
    for name in ("tiny", "tiny-assistant", "tiny-early", "tiny-merchant", "tiny-proactive", "tiny-sums")
}
_REQUIRED = ("config.json", "tokenizer.json")


def locate(model: str) -> Path:
    """The folder of a model: an included one by name, any other by path."""
    folder = _SHIPPED.get(model) or Path(model).expanduser()
    if not folder.is_dir():
        raise SettingsError(
            f"there is no model folder {model}",
            fix=f"use a Hugging Face model folder (hf download ORG/NAME --local-dir NAME), "
            f"or an included model: {', '.join(_SHIPPED)}",
        )
    missing = [name for name in _REQUIRED if not (folder / name).is_file()]
    if missing:
        raise SettingsError(
            f"{model} is not a model folder: it has no {' and no '.join(missing)}",
            fix="use a Hugging Face model folder; for an adapter, use the folder of its base",
        )
    return folder.resolve()
