"""Action opportunities: which actions an agent or an annotator foresees, with which inputs, and whether they are ready.

Predictions and references have the same shape, so every metric compares like with like.

    >>> name = Input("customer_name", provided=True, value="Joyce Wu")
    >>> opportunity = Opportunity("pull-up-account", "ready_to_trigger", required=(name,))
    >>> opportunity.ready, opportunity.inputs["customer_name"].value
    (True, 'Joyce Wu')

Reference windows: at which turns of a dialogue the reference calls an action ready (equation 4).

>>> windows = Windows({"send-link": [5, 4]}, length=20)
>>> windows["send-link"], windows.last("send-link"), windows.last("make-password")
((4, 5), 5, None)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self, TypeGuard, get_args

from agentfw_rewardmodels import BadInputError

Status = Literal["pending", "ready_to_trigger", "triggered", "repeatable", "dismissed"]
Level = Literal["low", "medium", "high"]

STATUSES: tuple[Status, ...] = get_args(Status)
LEVELS: tuple[Level, ...] = get_args(Level)
_READY = frozenset({"ready_to_trigger", "triggered"})


def is_status(text: str) -> TypeGuard[Status]:
    return text in STATUSES


def is_level(text: str) -> TypeGuard[Level]:
    return text in LEVELS


@dataclass(frozen=True, slots=True)
class Input:
    """One input of an action and what is known of it."""

    name: str
    provided: bool = False
    value: str | None = None

    def __post_init__(self) -> None:
        if self.value is not None and not self.provided:
            raise BadInputError(
                f'the input "{self.name}" has the value "{self.value}" but is not provided',
                fix="set provided to true, or leave out the value",
            )


@dataclass(frozen=True)
class Opportunity:
    """One action that could be useful, its inputs so far and its status."""

    name: str
    status: Status
    required: tuple[Input, ...] = ()
    optional: tuple[Input, ...] = ()
    maturity: Level = "medium"
    confidence: Level = "medium"
    description: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise BadInputError("an action has no name", fix="give every opportunity the name of an action")
        if not is_status(self.status):
            raise BadInputError(f'"{self.status}" is not a status', fix=f"use one of {', '.join(STATUSES)}")
        for level in (self.maturity, self.confidence):
            if not is_level(level):
                raise BadInputError(f'"{level}" is not a level', fix=f"use one of {', '.join(LEVELS)}")
        if len(self.inputs) < len(self.required) + len(self.optional):
            raise BadInputError(
                f'the action "{self.name}" lists an input twice', fix="list each input once, as required or as optional"
            )

    @property
    def ready(self) -> bool:
        """Whether the action can be triggered now, or was."""
        return self.status in _READY

    @cached_property
    def inputs(self) -> dict[str, Input]:
        """Required and optional inputs by name."""
        return {one.name: one for one in (*self.required, *self.optional)}


@dataclass(frozen=True, slots=True)
class TurnOpportunities:
    """What was predicted at one turn of a dialogue, or what the reference says of it."""

    dialogue: str
    turn: int
    opportunities: tuple[Opportunity, ...] = ()
    questions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_turn(self.turn)


def check_turn(turn: object) -> int:
    """The turn number, if it is a whole number from 1."""
    if isinstance(turn, bool) or not isinstance(turn, int) or turn < 1:
        raise BadInputError(f"{turn!r} is not a turn number", fix="number the turns of a dialogue 1, 2, 3, ...")
    return turn


class Windows(dict[str, tuple[int, ...]]):
    """The turns at which an action of one dialogue is ready in the reference, in order, by action."""

    def __init__(self, ready: Mapping[str, Iterable[int]], *, length: int | None = None) -> None:
        """Check the turn numbers, and that they lie within a dialogue of `length` turns if that is given."""
        turns = {name: tuple(sorted({check_turn(turn) for turn in given})) for name, given in ready.items()}
        super().__init__({name: given for name, given in turns.items() if given})
        for name, given in self.items():
            if length is not None and given[-1] > length:
                raise BadInputError(
                    f'"{name}" is ready at turn {given[-1]} of a dialogue of {length} turns',
                    fix="count every entry of the dialogue as a turn, including actions",
                )

    @classmethod
    def of(cls, references: Iterable[TurnOpportunities]) -> Self:
        """The windows of one dialogue's references."""
        ready: dict[str, list[int]] = {}
        for turn in references:
            for one in turn.opportunities:
                if one.ready:
                    ready.setdefault(one.name, []).append(turn.turn)
        return cls(ready)

    def first(self, action: str) -> int | None:
        return self[action][0] if action in self else None

    def last(self, action: str) -> int | None:
        return self[action][-1] if action in self else None
