"""Which replica of a pool has computed the beginning of a prompt before, and has probably still cached it.

    prefixes = Prefixes()
    prefixes.add(blocks_of("You are a helpful assistant. ..."), replica=0)
    prefixes.known(blocks_of("You are a helpful assistant. ..."))         # {0: number of blocks}

The turns of a session, the samples of a task, and sessions about one document begin alike, whatever they are called.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate

__all__ = ["Prefixes", "blocks_of"]

BLOCK = 256
"""Characters of a block. A model's server caches blocks of some tokens."""
REMEMBERED = 20_000
"""Number of blocks that are remembered: about as many tokens as a large GPU caches."""


def blocks_of(prompt: str) -> list[int]:
    """Return the blocks of a prompt. Each stands for itself and all before it. What fills no block is left out."""
    texts = (prompt[start : start + BLOCK] for start in range(0, len(prompt) - BLOCK + 1, BLOCK))
    return list(accumulate(texts, lambda before, text: hash((before, text)), initial=0))[1:]


class Prefixes:
    """The blocks that replicas have computed, the latest last."""

    def __init__(self) -> None:
        self._replicas: OrderedDict[int, set[int]] = OrderedDict()

    def known(self, blocks: Sequence[int]) -> dict[int, int]:
        """Return how many of the first blocks each replica has computed, for those that have any."""
        found: dict[int, int] = {}
        for count, block in enumerate(blocks, start=1):
            there = [one for one in self._replicas.get(block, ()) if found.get(one, 0) == count - 1]
            if not there:
                break
            found.update(dict.fromkeys(there, count))
        return found

    def add(self, blocks: Sequence[int], replica: int) -> None:
        """A replica computes these blocks now."""
        for block in reversed(blocks):  # the beginning, which others may have too, is forgotten last
            self._replicas.setdefault(block, set()).add(replica)
            self._replicas.move_to_end(block)
        while len(self._replicas) > REMEMBERED:
            self._replicas.popitem(last=False)

    def drop(self, replica: int) -> None:
        """A replica has lost what it cached."""
        for replicas in self._replicas.values():
            replicas.discard(replica)

    def clear(self) -> None:
        """All replicas have, as after a new version."""
        self._replicas.clear()
