"""The teacher of small models: it knows the references and plays them in one of several manners.

The manner belongs to a dialogue and doesn't depend on its text, so a model that learns from the teacher can't tell when
to be ready. It gets the actions and inputs right, gives every status some probability at every turn, and has yet to
learn timing. A teacher with a single manner would leave nothing to learn.

| manner | when an action is ready |
| --- | --- |
| 0 to 3 | that many turns after it is ready in the references |
| never | not at all |
| eager | as soon as it is foreseeable |
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from agentfw_papers.timing import Opportunity

from .dataset import Example

Manner = Literal[0, 1, 2, 3, "never", "eager"]
MANNERS: Mapping[Manner, float] = {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0, "never": 2.0, "eager": 1.0}
"""How often each manner is drawn, relative to the others."""


def draw_manner(draw: random.Random) -> Manner:
    [manner] = draw.choices(list(MANNERS), list(MANNERS.values()))
    return manner


def teach(example: Example, turn: int, manner: Manner) -> tuple[Opportunity, ...]:
    """What the teacher says at a turn: the references with their inputs, ready when the manner says so."""
    windows = example.annotation.windows

    def is_ready(one: Opportunity) -> bool:
        if isinstance(manner, str):
            return manner == "eager"
        return any(turn - manner >= ready for ready in windows.get(one.name, ()) if ready <= turn)

    return tuple(
        replace(one, status="ready_to_trigger" if is_ready(one) else "pending")
        for one in example.annotation.at(turn).opportunities
    )
