"""How many tokens a training step can compute at once in the memory there is.

Autograd is asked what it keeps of a few tokens, so no formula has to know the model. On a CPU the budget is a share of
the machine's memory, not of what is free at the moment: the same batch is cut in the same way after a restart, and a
resumed training ends with the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

__all__ = ["available_bytes", "kept_bytes"]

_SHARE = {"cpu": 0.15, "cuda": 0.7}
"""Of the memory that may be filled with what is kept. A backward pass was seen to hold up to 1.4 times as much for a
moment. On a CPU the process holds 2 to 5 times as much, since malloc keeps pages that were freed."""
_CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def kept_bytes(compute: Callable[[], object], weights: Iterable[torch.Tensor]) -> int:
    """What autograd keeps of a computation until the backward pass, without the model's weights."""
    known = {weight.untyped_storage().data_ptr() for weight in weights}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage  # held, so that no other tensor gets its address
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = compute()
    del result
    return sum(storage.nbytes() for storage in kept.values())


def available_bytes(device: str, weights: int, trained: int) -> int:
    """What activations may take, beside so many bytes of weights and their gradients and optimizer state."""
    if device == "cuda":
        free, _ = torch.cuda.mem_get_info()
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        room = free + unused - 3 * trained
    else:
        room = machine_memory() - weights - 3 * trained
    return max(0, int(room * _SHARE[device]))


def machine_memory() -> int:
    """The memory of this machine, or of the container that this process runs in."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CONTAINER_LIMITS:
        if path.is_file() and (limit := path.read_text("utf-8").strip()).isdigit():
            memory = min(memory, int(limit))
    return memory
