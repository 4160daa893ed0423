"""`agentfw serve --learn`: feedback that comes in trains the next version beside the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .version_file import VersionFile


def versions_at(run: Path, address: str = "", **told: Any) -> VersionFile:
    """The versions of a run's gateway or, with an address, those of the gateways that share sessions there."""
    if not address:
        return VersionFile(run)
    from .shared_versions import SharedVersionFile

    return SharedVersionFile(run, address, **told)
