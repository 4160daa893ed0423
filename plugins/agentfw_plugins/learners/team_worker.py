"""A worker of a learner, in a process of its own: it holds base and adapter, and computes pieces.

Everything crosses as bytes of safetensors. Nothing depends on what the worker computed before: it can be replaced at
any time.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from agentfw.optimizer import Loss
from agentfw.seeds import Seeds

from ..models.checkpoint import write_files
from .losses import Figures
from .network import Network, Which
from .pieces import Piece, backward, logprobs_of
from .settings import TrainableSettings
from .token_tree import Block, Packed

__all__ = ["TeamWorker", "gradient_from", "piece_to"]

_PACKED = ("ids", "positions", "subtree_ends", "nodes", "targets", "pair", "turn")
_TENSORS = ("advantages", "weights", "turns", "sampled", "before", "base", "baseline")


def piece_to(piece: Piece) -> dict[str, Any]:
    """A piece as plain values."""
    packed = {name: torch.from_numpy(getattr(piece.packed, name).copy()) for name in _PACKED}
    known = {name: getattr(piece, name) for name in _TENSORS}
    tensors = {name: tensor.cpu().contiguous() for name, tensor in known.items() if tensor is not None}
    blocks = [list(block) for block in piece.packed.blocks]
    return {
        "tensors": save(packed | tensors),
        "blocks": blocks,
        "computed": piece.packed.computed,
        "temperature": piece.temperature,
    }


def _piece_from(plain: dict[str, Any], device: str) -> Piece:
    found = load(plain["tensors"])
    packed = Packed(
        blocks=tuple(Block(*block) for block in plain["blocks"]),
        computed=plain["computed"],
        **{name: found[name].numpy() for name in _PACKED},
    )
    tensors = {name: found[name].to(device) if name in found else None for name in _TENSORS}
    return Piece(packed, plain["temperature"], **tensors)


def _gradient_to(network: Network) -> bytes:
    """The gradient of a network's parameters, which is then forgotten."""
    found = {}
    for number, parameter in enumerate(network.parameters()):
        if parameter.grad is not None:
            found[str(number)] = parameter.grad.cpu().contiguous()
        parameter.grad = None
    data: bytes = save(found)
    return data


def gradient_from(data: bytes) -> dict[int, torch.Tensor]:
    """The gradient by the number of the parameter."""
    return {int(number): tensor for number, tensor in load(data).items()}


class TeamWorker:
    """Computes pieces with the weights that it was given last."""

    def __init__(self, settings: dict[str, Any], adapter: dict[str, bytes] | None = None) -> None:
        """`adapter` are the files of the adapter that training starts from."""
        checked = TrainableSettings.model_validate(settings)
        self._network = Network(checked, Seeds(checked.seed).child("learner"))
        if adapter is not None:
            with tempfile.TemporaryDirectory(prefix="agentfw-") as folder:
                write_files(adapter, Path(folder))
                self._network.start_from(Path(folder))

    async def put(self, weights: bytes) -> None:
        """Take over the weights that are trained."""
        self._network.put(weights)

    async def move(self, device: str) -> None:
        self._network.move(device)

    async def logprobs(self, piece: dict[str, Any], of: Which) -> bytes:
        found = logprobs_of(self._network, _piece_from(piece, self._network.device), of)
        data: bytes = save({"logprobs": found.cpu().contiguous()})
        return data

    async def gradient(self, piece: dict[str, Any], loss: dict[str, Any]) -> dict[str, Any]:
        figures = Figures()
        backward(self._network, _piece_from(piece, self._network.device), Loss(**loss), figures)
        return {"gradient": _gradient_to(self._network), "figures": asdict(figures)}
