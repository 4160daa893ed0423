"""Where a model is.

The one rule: what a setting names is checked here, before anything heavy is loaded.

    >>> locate("no/such/folder")
    Traceback (most recent call last):
    ...
    agentfw.errors.SettingsError: there is no model folder no/such/folder
"""

from __future__ import annotations

from pathlib import Path

from agentfw.errors import SettingsError

__all__ = ["locate"]

_SHIPPED = {name: Path(__file__).parent / name for name in ("tiny", "tiny-early", "tiny-sums")}
_REQUIRED = ("config.json", "tokenizer.json")


def locate(model: str) -> Path:
    """The folder of a model: a shipped one by its name, any other by its path."""
    folder = _SHIPPED.get(model) or Path(model).expanduser()
    if not folder.is_dir():
        raise SettingsError(
            f"there is no model folder {model}",
            fix=f"name a folder in the form of Hugging Face (hf download ORG/NAME --local-dir NAME makes one), "
            f"or take one that ships: {', '.join(_SHIPPED)}",
        )
    missing = [name for name in _REQUIRED if not (folder / name).is_file()]
    if missing:
        raise SettingsError(
            f"{model} is no model folder: it has no {' and no '.join(missing)}",
            fix="name a folder in the form of Hugging Face; an adapter's folder is no model, its base is",
        )
    return folder.resolve()
