"""Memory and GPU use, logged with each update of a training.

GPUs are asked for with `nvidia-smi`, if it is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["system_use"]

_PATIENCE = 10.0
"""Seconds that nvidia-smi may take."""


def system_use() -> dict[str, float]:
    """Memory of this process in MiB, and memory in MiB and use in percent of each GPU. Empty where they are unknown."""
    return _memory() | _gpus()


def _memory() -> dict[str, float]:
    statistics = Path("/proc/self/statm")
    if not statistics.exists():
        return {}
    pages = int(statistics.read_text("ascii").split()[1])
    return {"memory_mb": round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)}


def _gpus() -> dict[str, float]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    query = ["--query-gpu=index,memory.used,utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run([program, *query], capture_output=True, text=True, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    figures: dict[str, float] = {}
    for line in done.stdout.splitlines():
        number, *values = (part.strip() for part in line.split(","))
        for name, value in zip(("memory_mb", "use_percent"), values, strict=False):
            if value.isdigit():  # a part of a GPU that is shared by MIG has no use: [N/A]
                figures[f"gpu{number}_{name}"] = float(value)
    return figures
