"""Where a distribution was installed from, so that an error can say what to install beside it.

    source_of("agentfw-papers", "plugins/papers", beside="agentfw")  # /home/ada/agentfw/plugins/papers

pip writes the address of a local installation into `direct_url.json`. It has none for what came from an index.
"""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["direct_url", "source_of", "source_tree"]


def source_tree(name: str) -> Path | None:
    """The folder that a distribution was installed from. None if it came from an index, or the folder is gone."""
    return _folder(direct_url(name))


def source_of(name: str, folder: str, *, beside: str) -> str:
    """What to give pip for a distribution: its folder in the sources of one that is installed, or else its name."""
    tree = source_tree(beside) if folder else None
    if tree is not None and (tree / folder / "pyproject.toml").is_file():
        return shlex.quote(str(tree / folder))
    return name


def direct_url(name: str) -> dict[str, Any]:
    """pip's record of where it came from. Empty if that was an index."""
    try:
        origin = json.loads(distribution(name).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return origin if isinstance(origin, dict) else {}


def _folder(origin: dict[str, Any]) -> Path | None:
    url = urlsplit(str(origin.get("url", "")))
    folder = Path(unquote(url.path))
    return folder if url.scheme == "file" and folder.is_dir() else None
