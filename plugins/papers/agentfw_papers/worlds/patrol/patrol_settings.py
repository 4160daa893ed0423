"""Settings of the patrol: the grid, the phases of handling a checkpoint, and the alarms.

`depth` selects one of the paper's experiments: with 1 a checkpoint is handled in one piece, with 2 and 3 in phases that
are costly to interrupt. It only chooses defaults; every value can be set.

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

Place = tuple[int, int]
"""A cell of the grid: column and row."""


class Phase(Settings):
    """A part of handling a checkpoint."""

    name: str = Field(min_length=1, description="Name of the phase.")
    takes: int = Field(gt=0, description="Number of ticks.")
    cost: float = Field(0.0, ge=0, description="Cost of leaving it unfinished.")


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
        description="Number of phases of handling a checkpoint; 2 and 3 change the defaults of `phases`, `keeps`, "
        "`horizon`, `deadline`, `resolved` and `expired`.",
    )
    modules: bool = Field(
        False, description="Walk and handle in a module that has an engagement of its own; outcomes are the same."
    )
    horizon: int = Field(1000, gt=0, description="Length of an episode in ticks.")
    checkpoints: tuple[Place, ...] = Field(
        ((1, 1), (8, 1), (8, 8), (1, 8)),
        min_length=2,
        max_length=26,
        description="Positions of the checkpoints, in the order of the round.",
    )
    phases: tuple[Phase, ...] = Field(
        (Phase(name="handle", takes=20, cost=0.0),),
        min_length=1,
        description="Phases of handling a checkpoint, in order.",
    )
    keeps: bool = Field(True, description="Keep the progress of a phase that is left unfinished.")
    rate: float = Field(0.05, gt=0, lt=1, description="Probability of an alarm per tick while there is none.")
    distance: int = Field(5, ge=0, description="Minimum distance of an alarm.")
    deadline: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]] = Field(
        (13, 27), description="Minimum and maximum number of ticks until an alarm expires."
    )
    resolving: int = Field(3, gt=0, description="Ticks to resolve an alarm on site.")
    checkpoint: float = Field(10.0, description="Reward of a handled checkpoint.")
    resolved: float = Field(30.0, description="Reward of a resolved alarm.")
    expired: float = Field(20.0, ge=0, description="Cost of an expired alarm.")
    active: float = Field(0.1, ge=0, description="Cost per tick of an active alarm.")

    @model_validator(mode="before")
    @classmethod
    def _of_the_depth(cls, values: Any) -> Any:
        return {**_BY_DEPTH.get(values.get("depth", 1), {}), **values} if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _possible(self) -> PatrolSettings:
        if self.deadline[0] > self.deadline[1]:
            raise ValueError(f"the minimum deadline {self.deadline[0]} is above the maximum {self.deadline[1]}")
        return self


def distance(one: Place, other: Place) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def walked(start: Place, end: Place, ticks: int) -> Place:
    """Position after some ticks of walking: first along the row, then the column, one cell per tick."""
    across = _towards(start[0], end[0], ticks)
    return across, _towards(start[1], end[1], ticks - abs(across - start[0]))


def _towards(start: int, end: int, steps: int) -> int:
    return min(end, start + steps) if end >= start else max(end, start - steps)
