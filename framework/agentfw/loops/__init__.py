"""Loops: runs in which memories learn and trainings in which the policy learns, in turn, for several variants.

`spec.py` says what is done, `cell.py` does it for one variant and seed, `loop.py` for all of them, and `table.py`
compares the variants.
"""

from __future__ import annotations

from .loop import Loop
from .spec import LoopSpec, read_loop
from .table import Row, table

__all__ = ["Loop", "LoopSpec", "Row", "read_loop", "table"]
