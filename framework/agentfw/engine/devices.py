"""The GPUs of this machine, and which of them has room for a share.

>>> devices = Devices(["0", "1"])
>>> [devices.take(share, "a replica") for share in (0.4, 0.4, 0.4, 1.0)]
Traceback (most recent call last):
...
agentfw.errors.UsageError: no GPU has room for a share of 1 for a replica: of 2, 0.2 and 0.6 are free
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import UsageError

__all__ = ["Devices"]

_ROUNDING = 1e-9


class Devices:
    """The free share of each GPU."""

    def __init__(self, names: Iterable[str]) -> None:
        self._free = dict.fromkeys(names, 1.0)
        self._lock = threading.Lock()

    @classmethod
    def found(cls) -> Devices:
        """The GPUs that CUDA_VISIBLE_DEVICES allows, or all of this machine."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None:
            return cls(name.strip() for name in visible.split(",") if name.strip() not in ("", "-1"))
        return cls(str(number) for number, _ in enumerate(sorted(Path("/dev").glob("nvidia[0-9]*"))))

    def take(self, share: float, who: str) -> list[str]:
        """The GPUs for a share of one, or for a whole number of them."""
        if not share:
            return []
        count, each = (1, share) if share <= 1 else (round(share), 1.0)
        with self._lock:
            taken = [name for name, free in self._free.items() if free >= each - _ROUNDING][:count]
            if len(taken) < count:
                raise UsageError(
                    f"no GPU has room for a share of {share:g} for {who}: {self._described()}",
                    fix="use fewer processes or smaller shares: the shares on one GPU may add up to 1",
                )
            for name in taken:
                self._free[name] -= each
        return taken

    def give(self, share: float, taken: Sequence[str]) -> None:
        """Give back what was taken."""
        with self._lock:
            for name in taken:
                self._free[name] += min(share, 1.0)

    def _described(self) -> str:
        if not self._free:
            return "this machine has no GPU"
        return f"of {len(self._free)}, {' and '.join(f'{free:.2g}' for free in self._free.values())} are free"
