"""How a calendar agent thinks aloud: what it holds of the user, what each event is worth, what it learns from feedback.

The one rule: everything that decides is written down. The weights stand in the hub's text, the sums on the lines of the
events, and what changes is said before it is changed; so the next answer follows from what can be read, and a small
model can learn it step by step.

    C 5 over A 20
    C1 client attends +6
    A1 due today +14, A2 in person -2
    named client attends +12
    <tool_call>{"name": "strategy_hub", "arguments": {"action": "update", "strategies": ["due today +14, ...", ...]}}</tool_call>
    A1 due today +14 14, A2 just the two of us -3 11; A 11
    B 0; A 11
    C1 client attends +12 12; C 12
    <tool_call>{"name": "decide", "arguments": {"accept": "C", "ranking": ["C", "A", "B"], "reason": "client attends"}}</tool_call>

Each term has a number of its own and its weight, on the lines of events also the sum so far; at the end of a line stands
the best event so far. What a feedback changes is said with its new weight, so the hub's next text is what was said last.
A weight is in quarters of what people usually mean by one point.

    >>> read_weights(["due today +15, due this week +0", "client attends -2"])["client"]
    -2
"""  # noqa: E501

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .principles import vocabulary

__all__ = [
    "Thought",
    "Valued",
    "read_valued",
    "read_weights",
    "terms",
    "value",
    "write_call",
    "write_decision",
    "write_valued",
    "write_weights",
]

PRINCIPLES = vocabulary().principles
NAMES = tuple(PRINCIPLES)
LABELS = {name: principle.label for name, principle in PRINCIPLES.items()}
_NAME_OF = {label: name for name, label in LABELS.items()}
_ENTRY = 4
"""How many weights stand in one entry of the hub: twenty principles fill five entries."""
_WEIGHT = re.compile(r"([a-z][^,+\-\d]*?) ([+-]\d+)")
_VALUED = re.compile(r"^([A-E])(?: (0)|1 ([^;]*) (-?\d+)); [A-E] -?\d+$")


def terms(tags: Mapping[str, str]) -> list[str]:
    """The principles that an event triggers, in the order of the vocabulary."""
    return [name for name, principle in PRINCIPLES.items() if principle.triggers(tags)]


def write_weights(weights: Mapping[str, int]) -> list[str]:
    """The hub's entries: every principle once, so that none is mistaken for one that was never thought about."""
    pairs = [f"{LABELS[name]} {weights.get(name, 0):+d}" for name in NAMES]
    return [", ".join(pairs[first : first + _ENTRY]) for first in range(0, len(pairs), _ENTRY)]


def read_weights(entries: Iterable[str]) -> dict[str, int]:
    """The weights in a hub's entries; what isn't a weight is left out."""
    found = (pair for entry in entries for pair in _WEIGHT.findall(entry))
    return {_NAME_OF[label]: int(weight) for label, weight in found if label in _NAME_OF}


@dataclass(frozen=True, slots=True)
class Valued:
    """One event as it was thought about: its letter, what it triggers, and the sum."""

    letter: str
    terms: tuple[str, ...]
    total: int


def value(letter: str, triggered: Sequence[str], weights: Mapping[str, int]) -> Valued:
    return Valued(letter, tuple(triggered), sum(weights.get(name, 0) for name in triggered))


def write_valued(valued: Sequence[Valued], weights: Mapping[str, int]) -> list[str]:
    """A line for each event; of equals the first is the best."""
    lines: list[str] = []
    for place, event in enumerate(valued):
        total, parts = 0, []
        for number, name in enumerate(event.terms, start=1):
            total += weights.get(name, 0)
            parts.append(f"{event.letter}{number} {LABELS[name]} {weights.get(name, 0):+d} {total}")
        best = max(valued[: place + 1], key=lambda one: one.total)
        lines.append(f"{', '.join(parts) or f'{event.letter} 0'}; {best.letter} {best.total}")
    return lines


def read_valued(text: str) -> dict[str, Valued]:
    """The lines of events in an answer, by letter."""
    found: dict[str, Valued] = {}
    for line in text.splitlines():
        match = _VALUED.match(line)
        if match:
            triggered = tuple(_NAME_OF[label] for label, _ in _WEIGHT.findall(match[3] or "") if label in _NAME_OF)
            found[match[1]] = Valued(match[1], triggered, int(match[2] or match[4]))
    return found


@dataclass(frozen=True, slots=True)
class Thought:
    """What a feedback teaches: new weights of what spoke for the kept event, then of what spoke for the best other,
    then of what the user named. The last one said of a principle holds."""

    kept: str
    kept_total: int
    rival: str
    rival_total: int
    more: tuple[tuple[str, int], ...]
    less: tuple[tuple[str, int], ...]
    named: tuple[str, int] | None

    def __str__(self) -> str:
        lines = [f"{self.kept} {self.kept_total} over {self.rival} {self.rival_total}"]
        for letter, changed in ((self.kept, self.more), (self.rival, self.less)):
            parts = [f"{letter}{place} {LABELS[name]} {weight:+d}" for place, (name, weight) in enumerate(changed, 1)]
            lines += [", ".join(parts)] if parts else []
        if self.named:
            lines.append(f"named {LABELS[self.named[0]]} {self.named[1]:+d}")
        return "\n".join(lines)


def write_call(name: str, arguments: Mapping[str, object]) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}</tool_call>"


def write_decision(valued: Sequence[Valued], weights: Mapping[str, int]) -> str:
    """The call that keeps the event worth most; of equals the first."""
    order = sorted(valued, key=lambda event: -event.total)
    for_it = [name for name in order[0].terms if weights.get(name, 0) > 0]
    reason = LABELS[max(for_it, key=lambda name: weights[name])] if for_it else "the others less"
    ranking = [event.letter for event in order]
    return write_call("decide", {"accept": ranking[0], "ranking": ranking, "reason": reason})
