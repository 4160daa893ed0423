"""Model folders that are made of other files once, and found again in the user's cache.

They are beside the cache of every other program, in $XDG_CACHE_HOME or ~/.cache, and can be removed at any time.

    folder = cached_folder("four-bits", "model", identity, lambda unfinished: write(unfinished))
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from .checkpoint import write_folder

__all__ = ["cached_folder"]


def cached_folder(kind: str, name: str, identity: str, write: Callable[[Path], None]) -> Path:
    """The folder of this identity. `write` fills a new one; what was not finished is never found."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "agentfw" / kind
    made = cache / f"{name}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    if not made.is_dir():
        own = made.with_name(f"{made.name}.{os.getpid()}")  # several replicas may start at once
        write_folder(own, write)
        try:
            own.replace(made)
        except OSError:  # another process was faster
            shutil.rmtree(own)
    return made
