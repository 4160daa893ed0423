"""Action opportunities: which actions an agent or an annotator foresees, with which inputs, and whether they are ready.

Predictions and references have the same shape, so every metric compares like with like.

    >>> name = Input("customer_name", provided=True, value="Joyce Wu")
    >>> opportunity = Opportunity("pull-up-account", "ready_to_trigger", required=(name,))
    >>> opportunity.ready, opportunity.inputs["customer_name"].value
    (True, 'Joyce Wu')
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeGuard, get_args

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
