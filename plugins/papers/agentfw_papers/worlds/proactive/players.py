"""Simple players that a run is compared with. They know the references, so they say how far timing and agreement go.

| player | what it says |
| --- | --- |
| oracle | the references |
| reactive | the references, but ready only at the last turn before an action is triggered |
| eager | all that is left of the workflow, ready at every turn from which the wish can be recognised |
| silent | nothing |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

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
