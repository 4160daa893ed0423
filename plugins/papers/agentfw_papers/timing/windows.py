"""Reference windows: at which turns of a dialogue the reference calls an action ready (equation 4).

>>> windows = Windows({"send-link": [5, 4]}, length=20)
>>> windows["send-link"], windows.last("send-link"), windows.last("make-password")
((4, 5), 5, None)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from agentfw_papers.timing.actions import TurnOpportunities, check_turn
from agentfw_rewardmodels import BadInputError


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
