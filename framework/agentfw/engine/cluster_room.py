"""Whether some processes fit on the nodes of a cluster, each on one of them.

>>> two = [Node(cpus=4, gpus=1), Node(cpus=4, gpus=1)]
>>> fit([Share(1, 1.0)] * 2, two), fit([Share(1, 1.0)] * 3, two), fit([Share(1, 0.4)] * 4, two)
(True, False, True)
>>> in_words(two)
'2 nodes with 4 CPUs and 1 GPU each'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..printing.out import counted

__all__ = ["Node", "Share", "fit", "in_words"]

_ROUNDING = 1e-9


class Share(NamedTuple):
    """What one process needs."""

    cpus: float
    gpus: float


class Node(NamedTuple):
    """What one node has."""

    cpus: float
    gpus: float


def fit(shares: Sequence[Share], nodes: Sequence[Node]) -> bool:
    """Whether there is a node for each of them: the largest go first, each to the first node with room."""
    free = [[float(node.cpus), float(node.gpus)] for node in nodes]
    for share in sorted(shares, key=lambda share: (-share.gpus, -share.cpus)):
        room = next((one for one in free if one[0] >= share.cpus and one[1] >= share.gpus - _ROUNDING), None)
        if room is None:
            return False
        room[0] -= share.cpus
        room[1] -= share.gpus
    return True


def in_words(nodes: Sequence[Node]) -> str:
    """The nodes of a cluster."""
    if not nodes:
        return "no nodes"
    kinds = Counter(nodes).items()
    return " and ".join(
        f"{counted(count, 'node')} with {node.cpus:g} CPUs and {_gpus(node.gpus)}" + (" each" if count > 1 else "")
        for node, count in kinds
    )


def _gpus(count: float) -> str:
    return f"{count:g} GPU" if count == 1 else f"{count:g} GPUs"
