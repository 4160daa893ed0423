"""Array types of the skill graph, and an array that grows."""

from __future__ import annotations

import mmap
from array import array
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", int, float)

Bools = NDArray[np.bool_]
Float32Array = NDArray[np.float32]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


LARGE = 1 << 20
"""Bytes from which an array has pages of its own."""


def grown(old: Any, needed: int) -> Any:
    """Return the array with room for at least `needed` rows. Room at least doubles, so appending stays cheap."""
    if needed <= len(old):
        return old
    new = _zeros((max(needed, 2 * len(old)), *old.shape[1:]), old.dtype)
    new[: len(old)] = old
    return new


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """An array of zeros, of which only what is written to takes time and memory.

    Those of numpy do too, until the process has freed such an array: then its memory is used again, and cleared whole.
    """
    size = dtype.itemsize * int(np.prod(shape))
    if size < LARGE or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(shape, dtype)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, dtype).reshape(shape)


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
