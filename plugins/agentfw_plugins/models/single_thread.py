"""Keeps numpy's matrix products on one thread, so that a result doesn't depend on how many there are.

With several threads OpenBLAS divides a product among them, and the kernels of some processors then add up in another
order. For matrices as small as those of `tiny` one thread is also faster.

    @single_threaded
    def product(rows, weight):
        return rows @ weight
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from threading import RLock
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["single_threaded"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# The limit belongs to the process: if two threads set and restored it in turn, one would compute without it.
_ALONE = RLock()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def single_threaded(compute: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A function that computes with one BLAS thread, and by itself in this process."""

    @wraps(compute)
    def limited(*values: Parameters.args, **named: Parameters.kwargs) -> Result:
        with _ALONE, _controller().limit(limits=1, user_api="blas"):
            return compute(*values, **named)

    return limited
