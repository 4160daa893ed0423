"""The numbers of a patrol: its grid, what handling a checkpoint takes, and the alarms.

The one rule: `depth` says which of the paper's experiments it is: 1 handles a checkpoint in one piece, 2 and 3 in
phases that cost something to leave. It chooses defaults; every number can be set.

    >>> [phase.name for phase in PatrolSettings(depth=3).phases]
    ['observe', 'verify', 'commit']
    >>> walked((1, 1), (8, 3), 9)
    (8, 3)

After the hierarchical patrol of the engagement-process paper (section 5.1.2, tables 12 and 13), of which the numbers
are lost. All of these are ours, and are settings; those of depth 1 were set by simulation to come near its results.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from agentfw import Settings

__all__ = ["PatrolSettings", "Phase", "Place", "distance", "walked"]

Place = tuple[int, int]
"""A cell of the grid: across and down."""


class Phase(Settings):
    """A part of handling a checkpoint."""

    name: str = Field(min_length=1, description="What it is called.")
    takes: int = Field(gt=0, description="How many ticks it takes.")
    cost: float = Field(0.0, ge=0, description="What leaving in the middle of it costs.")


_STATE_LEVEL = {"horizon": 500, "deadline": (10, 20), "resolved": 15.0, "expired": 15.0, "keeps": False}
_BY_DEPTH: dict[int, dict[str, Any]] = {
    2: {
        "phases": ({"name": "observe", "takes": 8, "cost": 1.0}, {"name": "commit", "takes": 12, "cost": 6.0}),
        **_STATE_LEVEL,
    },
    3: {
        "phases": (
            {"name": "observe", "takes": 6, "cost": 1.0},
            {"name": "verify", "takes": 6, "cost": 3.0},
            {"name": "commit", "takes": 8, "cost": 6.0},
        ),
        **_STATE_LEVEL,
    },
}


class PatrolSettings(Settings):
    depth: Literal[1, 2, 3] = Field(
        1,
        description="In how many phases a checkpoint is handled; 2 and 3 change the defaults of `phases`, `keeps`, "
        "`horizon`, `deadline`, `resolved` and `expired`.",
    )
    horizon: int = Field(1000, gt=0, description="How many ticks an episode lasts.")
    checkpoints: tuple[Place, ...] = Field(
        ((1, 1), (8, 1), (8, 8), (1, 8)),
        min_length=2,
        max_length=26,
        description="Where the checkpoints are, in the order of the round.",
    )
    phases: tuple[Phase, ...] = Field(
        (Phase(name="handle", takes=20, cost=0.0),),
        min_length=1,
        description="What is done at a checkpoint, one after the other.",
    )
    keeps: bool = Field(True, description="Whether what was done of a phase stays when it is left.")
    rate: float = Field(0.05, gt=0, lt=1, description="The chance of an alarm in a tick, while there is none.")
    distance: int = Field(5, ge=0, description="How far away an alarm is at least.")
    deadline: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]] = Field(
        (13, 27), description="After how many ticks an alarm expires: at least, and at most."
    )
    resolving: int = Field(3, gt=0, description="How many ticks it takes to resolve an alarm, once there.")
    checkpoint: float = Field(10.0, description="What a handled checkpoint pays.")
    resolved: float = Field(30.0, description="What a resolved alarm pays.")
    expired: float = Field(20.0, ge=0, description="What an alarm that expires costs.")
    active: float = Field(0.1, ge=0, description="What an alarm costs in each tick until it is over.")

    @model_validator(mode="before")
    @classmethod
    def _of_the_depth(cls, values: Any) -> Any:
        return {**_BY_DEPTH.get(values.get("depth", 1), {}), **values} if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _possible(self) -> PatrolSettings:
        if self.deadline[0] > self.deadline[1]:
            raise ValueError(f"a deadline of at least {self.deadline[0]} ticks can't be at most {self.deadline[1]}")
        return self


def distance(one: Place, other: Place) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def walked(start: Place, end: Place, ticks: int) -> Place:
    """Where one is after so many ticks on the way: first across, then down, a cell a tick."""
    across = _towards(start[0], end[0], ticks)
    return across, _towards(start[1], end[1], ticks - abs(across - start[0]))


def _towards(start: int, end: int, steps: int) -> int:
    return min(end, start + steps) if end >= start else max(end, start - steps)
