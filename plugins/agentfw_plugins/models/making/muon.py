"""Muon: gradient descent by direction alone, for the matrices of a small model trained from scratch.

A step has the same length in every direction of a matrix. The momentum's singular values are brought near one by
five rounds of a polynomial (the Newton-Schulz iteration with Jordan's coefficients), so rare directions are
learned as fast as frequent ones.

torch has a Muon of its own, in half precision, which is slow on processors without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Muon", "orthogonal"]

_MOMENTUM = 0.95
_DECAY = 0.01
_ROUNDS = 5


class Muon:
    """For matrices; everything else of a model goes to AdamW."""

    def __init__(self, matrices: Iterable[Tensor]) -> None:
        self._momenta = [(matrix, torch.zeros_like(matrix)) for matrix in matrices]

    def step(self, rate: float) -> None:
        with torch.no_grad():
            for matrix, momentum in self._momenta:
                momentum.mul_(_MOMENTUM).add_(matrix.grad)
                direction = orthogonal(matrix.grad + _MOMENTUM * momentum)
                scale = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
                matrix.mul_(1 - rate * _DECAY).add_(direction, alpha=-rate * scale)


def orthogonal(matrix: Tensor) -> Tensor:
    """The matrix with all singular values near one."""
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    wide = wide / (wide.norm() + 1e-7)
    for _ in range(_ROUNDS):
        square = wide @ wide.T
        wide = 3.4445 * wide + (-4.7750 * square + 2.0315 * square @ square) @ wide
    return wide.T if matrix.shape[0] > matrix.shape[1] else wide
