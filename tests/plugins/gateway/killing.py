"""Starts `agentfw serve` in a process of its own, for what looks at its folder while it runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from serving_gateways import begun, told


def start(folder: Path, *more: str) -> tuple[subprocess.Popen[str], str, Path]:
    """The process, its address and the folder of its run."""
    process = begun(folder, *more)
    return process, *told(process)
