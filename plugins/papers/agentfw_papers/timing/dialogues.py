"""Dialogues between a customer and a professional, with the actions that were triggered in them.

Every entry of a dialogue counts as a turn, including those that report an action, so turn numbers are the same in
dialogues, predictions and references.

    >>> turns = (Turn("customer", "My name is Joyce Wu"), Turn("action", "Account pulled up"))
    >>> dialogue = Dialogue("d1", turns, (Trigger(2, "pull-up-account", {"customer_name": "Joyce Wu"}),))
    >>> Dialogue.from_dict(dialogue.as_dict()) == dialogue
    True

An `Annotation` has the reference actions of a dialogue, as an annotator wrote them with hindsight. The windows follow
from its references, so only the references are stored.

    >>> from agentfw_papers.timing.actions import Opportunity
    >>> ready = Opportunity("send-link", "ready_to_trigger")
    >>> annotation = Annotation("d1", 20, (TurnOpportunities("d1", 4, (ready,)), TurnOpportunities("d1", 5, (ready,))))
    >>> annotation.windows, len(annotation.at(4).opportunities), len(annotation.at(6).opportunities)
    ({'send-link': (4, 5)}, 1, 0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self, get_args

from agentfw_papers.timing.actions import Status, TurnOpportunities, Windows, check_turn
from agentfw_rewardmodels import BadInputError

Speaker = Literal["customer", "professional", "action"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One entry of a dialogue."""

    speaker: Speaker
    text: str
    delexed: str = ""
    """The text with placeholders for values, if the data has it."""
    time: float | None = None

    def __post_init__(self) -> None:
        if self.speaker not in get_args(Speaker):
            raise BadInputError(f'"{self.speaker}" is not a speaker', fix=f"use one of {', '.join(get_args(Speaker))}")
        if not isinstance(self.text, str):
            raise BadInputError(f"{self.text!r} is not the text of a turn", fix="write the text as a string")


@dataclass(frozen=True, slots=True)
class Trigger:
    """An action that was observed at a turn, with the values of its parameters."""

    turn: int
    action: str
    values: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_turn(self.turn)


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One dialogue. Turn t is `turns[t - 1]`."""

    id: str
    turns: tuple[Turn, ...]
    triggers: tuple[Trigger, ...] = ()
    domain: str = ""
    split: str = ""
    flow: str = ""
    subflow: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the data says about the customer and the order beforehand."""

    def __post_init__(self) -> None:
        if not self.turns:
            raise BadInputError(f'the dialogue "{self.id}" has no turns', fix="leave it out")
        for trigger in self.triggers:
            if trigger.turn > len(self.turns):
                raise BadInputError(
                    f'the dialogue "{self.id}" has {len(self.turns)} turns, but "{trigger.action}" is triggered at'
                    f" turn {trigger.turn}",
                    fix="count every entry of the dialogue as a turn, including actions",
                )

    def as_dict(self) -> dict[str, Any]:
        """The dialogue as JSON values, without what is empty."""
        row = asdict(self)
        for name in ("turns", "triggers"):
            row[name] = [
                {key: value for key, value in part.items() if value not in ("", None, {}) or key == "text"}
                for part in row[name]
            ]
        return {key: value for key, value in row.items() if value}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """The dialogue from JSON values; raises BadInputError where they are none."""
        try:
            rest = {key: value for key, value in row.items() if key not in ("turns", "triggers")}
            turns = tuple(Turn(**turn) for turn in row["turns"])
            return cls(turns=turns, triggers=tuple(Trigger(**trigger) for trigger in row.get("triggers", ())), **rest)
        except (KeyError, TypeError) as error:
            raise BadInputError(
                f"this is not a dialogue: {error}", fix="write dialogues as `Dialogue.as_dict` does"
            ) from error


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
