"""The reference actions of a dialogue, as an annotator wrote them with hindsight.

The windows of a dialogue follow from its references, so only the references are stored.

    >>> from agentfw_papers.timing.actions import Opportunity
    >>> ready = Opportunity("send-link", "ready_to_trigger")
    >>> annotation = Annotation("d1", 20, (TurnOpportunities("d1", 4, (ready,)), TurnOpportunities("d1", 5, (ready,))))
    >>> annotation.windows, len(annotation.at(4).opportunities), len(annotation.at(6).opportunities)
    ({'send-link': (4, 5)}, 1, 0)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agentfw_papers.timing.actions import Status, TurnOpportunities, check_turn
from agentfw_papers.timing.windows import Windows
from agentfw_rewardmodels import BadInputError


@dataclass(frozen=True)
class Annotation:
    """The references of a dialogue of `length` turns. Turns at which nothing is expected can be left out."""

    dialogue: str
    length: int
    turns: tuple[TurnOpportunities, ...] = ()
    windows: Windows = field(init=False, compare=False, repr=False)
    _by_turn: dict[int, TurnOpportunities] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_turn(self.length)
        by_turn: dict[int, TurnOpportunities] = {}
        for turn in self.turns:
            if turn.dialogue != self.dialogue:
                raise BadInputError(
                    f'the annotation of dialogue "{self.dialogue}" has a turn of dialogue "{turn.dialogue}"',
                    fix="make one annotation for each dialogue",
                )
            if turn.turn > self.length:
                raise BadInputError(
                    f'dialogue "{self.dialogue}" has {self.length} turns, but a reference at turn {turn.turn}',
                    fix="count every entry of the dialogue as a turn, including actions",
                )
            if turn.turn in by_turn:
                raise BadInputError(
                    f'dialogue "{self.dialogue}" has two references at turn {turn.turn}',
                    fix="put all actions of a turn into one list",
                )
            by_turn[turn.turn] = turn
        object.__setattr__(self, "_by_turn", by_turn)
        object.__setattr__(self, "windows", Windows.of(self.turns))

    def at(self, turn: int) -> TurnOpportunities:
        """The references of a turn, empty if nothing is expected there."""
        return self._by_turn.get(turn) or TurnOpportunities(self.dialogue, turn)

    def statuses(self, action: str) -> tuple[tuple[int, Status], ...]:
        """The turns at which the action is expected, with its status there."""
        return tuple((turn.turn, one.status) for turn in self.turns for one in turn.opportunities if one.name == action)
