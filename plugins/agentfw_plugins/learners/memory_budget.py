"""Determines how many tokens a training step can compute at once with the available memory.

It measures what autograd stores for a few tokens, so no formula for the model is needed. On a CPU the budget is a share
of the machine's total memory instead of the free memory: the same batch is then split in the same way after a restart,
and a resumed training gives identical bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from ..models.base import machine_memory

__all__ = ["available_bytes", "kept_bytes"]

_SHARE = {"cpu": 0.15, "cuda": 0.7}
"""Share of the memory for stored activations. A backward pass was observed to use up to 1.4 times as much for a moment.
On a CPU the process uses 2 to 5 times as much, because malloc keeps freed pages."""


def kept_bytes(compute: Callable[[], object], weights: Iterable[torch.Tensor]) -> int:
    """Bytes that autograd stores for a computation until the backward pass, without the model's weights."""
    known = {weight.untyped_storage().data_ptr() for weight in weights}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage  # keep a reference, so that no other tensor gets its address
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = compute()
    del result
    return sum(storage.nbytes() for storage in kept.values())


def available_bytes(device: str, weights: int, trained: int) -> int:
    """Bytes available for activations, besides the weights and their gradients and optimizer state."""
    if device == "cuda":
        free, _ = torch.cuda.mem_get_info()
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        room = free + unused - 3 * trained
    else:
        room = machine_memory() - weights - 3 * trained
    return max(0, int(room * _SHARE[device]))
