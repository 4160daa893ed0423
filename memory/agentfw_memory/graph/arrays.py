"""Array types of the skill graph, and an array that grows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
