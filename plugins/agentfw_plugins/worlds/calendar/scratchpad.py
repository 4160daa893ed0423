"""The written reasoning of a calendar agent: what it has learned of the user, and what each event is worth.

Everything that decides is written down: the weights in the hub's text, the sums on the lines of the events, and each
change before it is made. So the next answer follows from what can be read, and a small model can learn it step by step.

    named: client attends for, wrong: +6 to +12
    now B: client attends +12 12, in person -3 9; B 9
    now A: superior attends +15 15, in person -3 12; A 12
    step: B 9, A 12: -3, 2
    kept B: client attends +12 to +14, in person -3 to -1
    rival A: superior attends +15 to +13, in person -1 to -3
    <tool_call>{"name": "strategy_hub", "arguments": {"action": "update", "strategies": ["due today +15, ...", ...]}}</tool_call>
    A: due today +15 15, just the two of us -3 12; A 12
    B: 0; A 12
    C: client attends +14 14; C 14
    <tool_call>{"name": "decide", "arguments": {"accept": "C", "ranking": ["C", "A", "B"], "reason": "client attends"}}</tool_call>

After a term come its weight and the sum so far; at the end of a line stands the best event so far. The lines `now` have
what the kept event of the last round and its rival are worth, once what was named has changed. The line `step` says by
how much the kept one is ahead, and the step by which their weights move.

    >>> read_weights(["due today +15, due this week +0", "client attends -2"])["client"]
    -2
"""  # noqa: E501

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .schema import vocabulary

PRINCIPLES = vocabulary().principles
NAMES = tuple(PRINCIPLES)
LABELS = {name: principle.label for name, principle in PRINCIPLES.items()}
_NAME_OF = {label: name for name, label in LABELS.items()}
_ENTRY = 4
"""Number of weights per entry of the hub; twenty principles fill five entries."""
_WEIGHT = re.compile(r"([a-z][^,+\-\d]*?) ([+-]\d+)")
_LINE = re.compile(r"^([A-Z]): (.*); [A-Z] -?\d+$", re.MULTILINE)


def terms(tags: Mapping[str, str]) -> list[str]:
    """The principles that an event triggers, in the order of the vocabulary."""
    return [name for name, principle in PRINCIPLES.items() if principle.triggers(tags)]


def write_weights(weights: Mapping[str, int]) -> list[str]:
    """The hub's entries, with every principle once."""
    pairs = [f"{LABELS[name]} {weights.get(name, 0):+d}" for name in NAMES]
    return [", ".join(pairs[first : first + _ENTRY]) for first in range(0, len(pairs), _ENTRY)]


def read_weights(entries: Iterable[str]) -> dict[str, int]:
    """The weights in a hub's entries; other text is ignored."""
    found = (pair for entry in entries for pair in _WEIGHT.findall(entry))
    return {_NAME_OF[label]: int(weight) for label, weight in found if label in _NAME_OF}


@dataclass(frozen=True, slots=True)
class Valued:
    """The reasoning on one event: its letter, the principles it triggers, and the sum."""

    letter: str
    terms: tuple[str, ...]
    total: int


def value(letter: str, triggered: Sequence[str], weights: Mapping[str, int]) -> Valued:
    return Valued(letter, tuple(triggered), sum(weights.get(name, 0) for name in triggered))


def write_valued(valued: Sequence[Valued], weights: Mapping[str, int]) -> list[str]:
    """A line per event; among equals the first is best."""
    lines: list[str] = []
    for place, event in enumerate(valued):
        best = max(valued[: place + 1], key=lambda one: one.total)
        lines.append(f"{event.letter}: {_summed(event, weights)}; {best.letter} {best.total}")
    return lines


def write_now(event: Valued, weights: Mapping[str, int]) -> str:
    """What an event of the last round is worth by now."""
    return f"now {event.letter}: {_summed(event, weights)}; {event.letter} {event.total}"


def _summed(event: Valued, weights: Mapping[str, int]) -> str:
    total, parts = 0, []
    for name in event.terms:
        total += weights.get(name, 0)
        parts.append(f"{LABELS[name]} {weights.get(name, 0):+d} {total}")
    return ", ".join(parts) or "0"


def write_named(name: str, valued: bool, wrong: bool, had: int, weighs: int) -> str:
    """What the user named, on which side, whether the decision was right, and its old and new weight."""
    side, verdict = "for" if valued else "against", "wrong" if wrong else "right"
    return f"named: {LABELS[name]} {side}, {verdict}: {had:+d} to {weighs:+d}"


def write_moved(what: str, letter: str, had: Sequence[tuple[str, int]], weights: Mapping[str, int]) -> str:
    """The principles that an event of the last round triggers, with their old and new weights."""
    moved = [f"{LABELS[name]} {weight:+d} to {weights[name]:+d}" for name, weight in had]
    return f"{what} {letter}: {', '.join(moved) or '0'}"


def write_step(kept: Valued, rival: Valued, step: int) -> str:
    """What the kept event and its rival are worth, how far the kept one is ahead, and the step that follows."""
    worth = ", ".join(f"{event.letter} {event.total}" for event in (kept, rival))
    return f"step: {worth}: {kept.total - rival.total:+d}, {step}"


def read_terms(thought: str) -> dict[str, tuple[str, ...]]:
    """What each event triggers, by the lines of an answer, in the order of the vocabulary."""
    found: dict[str, tuple[str, ...]] = {}
    for letter, parts in _LINE.findall(thought):
        there = {_NAME_OF.get(label) for label, _ in _WEIGHT.findall(parts)}
        found[letter] = tuple(name for name in NAMES if name in there)
    return found


def write_call(name: str, arguments: Mapping[str, object]) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}</tool_call>"


def write_decision(valued: Sequence[Valued], weights: Mapping[str, int]) -> str:
    """The call that keeps the event with the greatest value; among equals the first."""
    order = sorted(valued, key=lambda event: -event.total)
    for_it = [name for name in order[0].terms if weights.get(name, 0) > 0]
    reason = LABELS[max(for_it, key=lambda name: weights[name])] if for_it else "the others less"
    ranking = [event.letter for event in order]
    return write_call("decide", {"accept": ranking[0], "ranking": ranking, "reason": reason})
