"""Bounds how many small graphs a process holds in memory.

A process may have a graph open for each of ten thousand tenants. Those that were used last stay in memory. Another one
is loaded again when it is used, which takes milliseconds, because it is small. Large graphs stay: loading one takes
seconds.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Protocol

__all__ = ["SMALL", "Loaded", "loaded"]

MOST = 300
"""Number of small graphs that stay in memory. With a hundred skills each they take about 150 MB."""
SMALL = 5_000
"""Number of skills up to which a graph is small."""


class Unloadable(Protocol):
    def unload(self) -> None:
        """Give back memory, unless the graph is in use or large."""


class Loaded:
    """The graphs of this process in the order of their last use."""

    def __init__(self) -> None:
        self._graphs: OrderedDict[int, weakref.ref[Unloadable]] = OrderedDict()
        self._lock = threading.Lock()

    def used(self, graph: Unloadable) -> None:
        """Note that a graph was used, and unload those that were not used for the longest."""
        surplus = []
        with self._lock:
            self._graphs[id(graph)] = weakref.ref(graph)
            self._graphs.move_to_end(id(graph))
            while len(self._graphs) > MOST:
                surplus.append(self._graphs.popitem(last=False)[1]())
        for other in surplus:
            if other is not None:
                other.unload()

    def closed(self, graph: Unloadable) -> None:
        with self._lock:
            self._graphs.pop(id(graph), None)


loaded = Loaded()
