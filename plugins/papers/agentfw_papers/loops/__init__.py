"""Loops: runs in which memories learn and trainings in which the policy learns, in turn, for several variants.

`spec.py` says what is done, `loop.py` does it, `table.py` compares the variants, and `forgetting.py` takes a user out
of all of it.
"""

from __future__ import annotations

from .forgetting import Receipt, forget
from .loop import Loop, Result
from .spec import LoopSpec, read_loop
from .table import Row, table

__all__ = ["Loop", "LoopSpec", "Receipt", "Result", "Row", "forget", "read_loop", "table"]
