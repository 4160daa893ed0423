"""Components with one bug each, and the promise of their contract that has to notice it.

for kind, bug in PLANTED:
    print(kind, bug.promise, bug.make)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import acting, learning, memories, watching
from .planting import Bug

__all__ = ["GOOD", "PLANTED", "Bug"]

GOOD: list[tuple[str, Callable[[], Any]]] = [
    ("environment", acting.Counter),
    ("policy", acting.Parrot),
    ("tool", acting.Box),
    ("memory", memories.Notebook),
    ("memory", memories.Shelf),
    ("memory", memories.Ears),
    ("reward", learning.Turns),
    ("optimizer", learning.Centred),
    ("learner", learning.Writer),
    ("learner", learning.Unigram),
    ("tracker", watching.Lines),
    ("tracker", watching.Table),
    ("tracker", watching.Timing),
    ("hook", watching.Sundays),
    ("plugin", watching.Diary),
    ("command", lambda: watching.count),
]
PLANTED: list[tuple[str, Bug]] = [
    (kind, bug)
    for bugs in (acting.BUGS, memories.BUGS, learning.BUGS, watching.BUGS)
    for kind, found in bugs.items()
    for bug in found
]
