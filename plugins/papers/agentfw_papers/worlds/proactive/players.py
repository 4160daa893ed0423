"""Simple players that a run is compared with. They know the references, so they say how far timing and agreement go.

| player | what it says |
| --- | --- |
| oracle | the references |
| reactive | the references, but ready only at the last turn before an action is triggered |
| eager | all that is left of the workflow, ready at every turn from which the wish can be recognised |
| silent | nothing |

The teacher of small models: it knows the references and plays them in one of several manners.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from agentfw_papers.timing import Catalog, Input, Opportunity

from .dataset import Example

Player = Callable[[Example, Catalog, Sequence[int]], Mapping[int, tuple[Opportunity, ...]]]
"""From a dialogue, the catalog and the turns that are asked about to the predictions at these turns."""


def oracle(example: Example, catalog: Catalog, turns: Sequence[int]) -> Mapping[int, tuple[Opportunity, ...]]:
    return {turn: example.annotation.at(turn).opportunities for turn in turns}


def reactive(example: Example, catalog: Catalog, turns: Sequence[int]) -> Mapping[int, tuple[Opportunity, ...]]:
    at_last = {
        (name, max((turn for turn in turns if turn < done), default=done))
        for name in example.annotation.windows
        for done in _triggered(example, name)
    }
    return {
        turn: tuple(
            replace(one, status="pending") if one.ready and (one.name, turn) not in at_last else one
            for one in example.annotation.at(turn).opportunities
        )
        for turn in turns
    }


def eager(example: Example, catalog: Catalog, turns: Sequence[int]) -> Mapping[int, tuple[Opportunity, ...]]:
    references = example.annotation.turns
    if not references:
        return dict.fromkeys(turns, ())
    workflows = {one.name: one.actions for one in catalog.workflows}
    expected = dict.fromkeys(one.name for turn in references for one in turn.opportunities)
    # A dialogue that ends early has no references for the rest of its workflow. Eager doesn't know that it will.
    names = dict.fromkeys([*workflows.get(example.dialogue.subflow, ()), *expected])
    windows = example.annotation.windows
    return {
        turn: tuple(_ready(name, example, catalog, turn) for name in names if (windows.last(name) or turn) >= turn)
        if turn >= references[0].turn
        else ()
        for turn in turns
    }


def silent(example: Example, catalog: Catalog, turns: Sequence[int]) -> Mapping[int, tuple[Opportunity, ...]]:
    return dict.fromkeys(turns, ())


PLAYERS: Mapping[str, Player] = {"eager": eager, "oracle": oracle, "reactive": reactive, "silent": silent}


def _triggered(example: Example, name: str) -> list[int]:
    """The turns at which an action is triggered in the reference, or the last one at which it is ready."""
    statuses = example.annotation.statuses(name)
    turns = [turn for turn, status in statuses if status == "triggered"]
    return turns or [max(example.annotation.windows[name])]


def _ready(name: str, example: Example, catalog: Catalog, turn: int) -> Opportunity:
    """An action as ready, with the inputs that have been said by this turn."""
    known = [
        one
        for reference in example.annotation.turns
        if reference.turn <= turn
        for one in reference.opportunities
        if one.name == name
    ]
    if known:
        return replace(known[-1], status="ready_to_trigger")
    action = catalog.find(name)
    inputs = tuple(Input(one.name) for one in action.parameters if one.required) if action else ()
    return Opportunity(name, "ready_to_trigger", inputs)


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
