"""Where a distribution was installed from, so that an error can say what to install beside it.

    source_of(KnownPlugin("agentfw-papers", {...}, "plugins/papers"), "agentfw")

pip writes the address of a local installation into `direct_url.json`. It has none for what came from an index.
"""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..hookspecs import KnownPlugin

__all__ = ["source_of", "source_tree"]


def source_tree(name: str) -> Path | None:
    """The folder that a distribution was installed from. None if it came from an index, or the folder is gone."""
    try:
        origin = json.loads(distribution(name).read_text("direct_url.json") or "{}").get("url", "")
    except (PackageNotFoundError, OSError, ValueError, AttributeError):
        return None
    url = urlsplit(str(origin))
    folder = Path(unquote(url.path))
    return folder if url.scheme == "file" and folder.is_dir() else None


def source_of(known: KnownPlugin, by: str) -> str:
    """What to give pip for a distribution that the distribution `by` knows: its folder beside `by`, or its name."""
    tree = source_tree(by) if known.folder else None
    if tree is not None and (tree / known.folder / "pyproject.toml").is_file():
        return shlex.quote(str(tree / known.folder))
    return known.name
