"""Whether a model fits into the memory, from its files alone: told before it is loaded.

Without this, loading ends minutes later, on a CPU often with a killed process that says nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

from agentfw.errors import SettingsError

__all__ = ["machine_memory", "require_room"]

_CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def machine_memory() -> int:
    """The memory of this machine, or of the container that this process runs in."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CONTAINER_LIMITS:
        if path.is_file() and (limit := path.read_text("utf-8").strip()).isdigit():
            memory = min(memory, int(limit))
    return memory


def require_room(model: Path, needed: int, how: str, fix: str, *, device: str = "cpu") -> None:
    """Raise if so many bytes are more than the device has at all."""
    there = machine_memory()
    if device == "cuda":
        import torch

        there = int(torch.cuda.mem_get_info()[1])
    if needed > there:
        where = "GPU" if device == "cuda" else "machine"
        raise SettingsError(
            f"the model {model} needs {needed / 1e9:.1f} GB {how}, and this {where} has {there / 1e9:.1f} GB", fix=fix
        )
