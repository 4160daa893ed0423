"""Validates annotations against observed triggers: was an action ready early enough before it was triggered?

A trigger passes if the reference's window opens at least `margin` turns before it (early-ready criterion, EC, equations
18 to 20). The share that passes falls with the margin. Dialogues that agree badly with what happened can be left out.

    >>> triggers = {"d1": [Trigger(6, "send-link")], "d2": []}
    >>> report = validate(triggers, {"d1": Windows({"send-link": [5, 6]}), "d2": Windows({})})
    >>> [row.passed for row in report.margins], report.kept(), report.without_triggers
    ([1, 1, 0, 0, 0], ('d1', 'd2'), ('d2',))
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentfw_papers.timing.actions import Windows
from agentfw_papers.timing.dialogues import Trigger
from agentfw_rewardmodels import BadInputError

MARGINS = (0, 1, 2, 3, 4)
KEEP_ABOVE = 0.8


@dataclass(frozen=True, slots=True)
class Margin:
    """How many triggers pass with one margin."""

    margin: int
    triggers: int
    passed: int
    scores: Mapping[str, float]
    """Share of each dialogue's triggers that pass. Dialogues without a trigger have no score."""

    @property
    def share(self) -> float | None:
        """Share of all triggers that pass."""
        return self.passed / self.triggers if self.triggers else None

    @property
    def mean(self) -> float | None:
        """Mean score of the dialogues."""
        return statistics.fmean(self.scores.values()) if self.scores else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the dialogues' scores."""
        return statistics.stdev(self.scores.values()) if len(self.scores) > 1 else None

    def above(self, threshold: float = KEEP_ABOVE) -> float | None:
        """Share of the dialogues with triggers whose score is above the threshold."""
        return sum(one > threshold for one in self.scores.values()) / len(self.scores) if self.scores else None


@dataclass(frozen=True, slots=True)
class AlignmentReport:
    margins: tuple[Margin, ...]
    """One row for each margin, from 0 to 4 turns."""
    without_triggers: tuple[str, ...]
    """Dialogues in which no action was observed, so that nothing can be said of them."""

    def kept(self, threshold: float = KEEP_ABOVE) -> tuple[str, ...]:
        """Dialogues whose score is above the threshold with the margin 0, and those without triggers."""
        passing = [name for name, score in self.margins[0].scores.items() if score > threshold]
        return (*passing, *self.without_triggers)


def early_ready(trigger: Trigger, windows: Windows, margin: int = 0) -> bool:
    """Whether the action was ready in the reference at least `margin` turns before it was triggered."""
    first = windows.first(trigger.action)
    return first is not None and first + margin <= trigger.turn


def validate(triggers: Mapping[str, Sequence[Trigger]], windows: Mapping[str, Windows]) -> AlignmentReport:
    """Compare the windows of each dialogue with the triggers that were observed in it."""
    if missing := [name for name in triggers if name not in windows]:
        raise BadInputError(
            f'{len(missing)} dialogues have no annotation, such as "{missing[0]}"',
            fix="annotate them, or leave out their triggers",
        )
    rows = []
    for margin in MARGINS:
        passed = {
            name: [early_ready(trigger, windows[name], margin) for trigger in observed]
            for name, observed in triggers.items()
            if observed
        }
        rows.append(
            Margin(
                margin,
                sum(map(len, passed.values())),
                sum(map(sum, passed.values())),
                {name: sum(each) / len(each) for name, each in passed.items()},
            )
        )
    return AlignmentReport(tuple(rows), tuple(name for name, observed in triggers.items() if not observed))
