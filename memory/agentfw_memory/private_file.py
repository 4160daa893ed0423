"""Files that only their owner can read: they hold what people said."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["make_private"]


def make_private(path: str | Path) -> None:
    """Create an empty file that only its owner can read, if there is none. SQLite's other files get its mode.

    If it can't be created, whoever opens it next says why. A file that exists isn't opened: closing one that SQLite has
    open in this process would drop its locks.
    """
    if str(path) != ":memory:":
        with suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o600))
