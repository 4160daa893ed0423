"""Array types of the skill graph, and an array that grows."""

from __future__ import annotations

from array import array
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Float32Array", "Floats", "Integers", "grown", "resizable"]

Number = TypeVar("Number", int, float)

Bools = NDArray[np.bool_]
Float32Array = NDArray[np.float32]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def grown(old: Any, needed: int) -> Any:
    """Return the array with room for at least `needed` rows. Room at least doubles, so appending stays cheap."""
    if needed <= len(old):
        return old
    new = np.zeros((max(needed, 2 * len(old)), *old.shape[1:]), old.dtype)
    new[: len(old)] = old
    return new


def resizable(values: array[Number]) -> array[Number]:
    """Return the array, or a copy if somebody still holds its buffer: then it can't be resized.

    That may be anybody who looks at a frame that worked with it, such as a debugger or a watching thread.
    """
    try:
        values.append(0)
        values.pop()
    except BufferError:
        return values[:]
    return values
