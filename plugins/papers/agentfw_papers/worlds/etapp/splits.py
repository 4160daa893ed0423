"""Which tasks are in which split: nine to one, drawn with the seed 42, as in the parpo-psgm paper.

A ninth of the nine is the split validation, which trainings evaluate on.

>>> parts = split_of([str(number) for number in range(100)])
>>> {name: len(some) for name, some in parts.items()}
{'test': 10, 'validation': 10, 'train': 80}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from agentfw.seeds import Seeds

SEED = 42
_TEST = 10
One = TypeVar("One")


def shuffled(all_of_them: Sequence[One]) -> list[One]:
    """All of them in a fixed random order."""
    return Seeds(SEED).random("split").sample(all_of_them, len(all_of_them))


def split_of(all_of_them: Sequence[One]) -> dict[str, list[One]]:
    """The members of each split."""
    order = shuffled(all_of_them)
    held = max(1, len(order) // _TEST)
    return {"test": order[:held], "validation": order[held : 2 * held], "train": order[2 * held :]}
