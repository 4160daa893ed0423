"""A teacher for pretrained models: it notes in the hub what the user keeps and drops, and decides by counting the notes.

What it knows of the user is in the message that it answers: the hub's entries, and what the feedback names. It writes
what it does in small steps, so that a model can learn it from a few hundred answers: what it has learned, what speaks
for and against each event, in the notes' own words, with the count so far, its sum, and the order of the sums. Nearly
all of it can be copied from the message or from the line before, which is what a small model does best.

    in person: keep
    A: in person: keep 1, part of a series = 1 for A
    B: teaching and learning, marked urgent: drop -1, in person: keep 0 = 0 for B
    C: just the two of us = 0 for C
    1 for A, 0 for B, 0 for C
    <tool_call>{"name": "strategy_hub", "arguments": {"action": "update", "strategies": ["marked urgent: drop", ...]}}</tool_call>
    <tool_call>{"name": "decide", "arguments": {"accept": "A", "ranking": ["A", "B", "C"], "reason": "1 by the notes"}}</tool_call>

    agentfw run calendar --policy ./noting_teacher.py --memory strategyhub --set memory.strategyhub.show=true

The shipped `teacher` weighs twenty principles and writes every sum, in more than twice as many tokens.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentfw import Generation, Policy, Request
from agentfw_plugins.worlds.calendar.policies import remembered
from agentfw_plugins.worlds.calendar.schema import vocabulary
from agentfw_plugins.worlds.calendar.scratchpad import LABELS, terms, write_call

MOST = 10
"""Entries of the hub. The oldest make room."""
_KEEP, _DROP = ": keep", ": drop"
_TAGS = {
    name: [*principle.values, *(tag for tag, *_ in principle.bounds)][0]
    for name, principle in vocabulary().principles.items()
}


class NotingTeacher(Policy):
    """Answers as a language model would, in text."""

    is_program = True

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        notes = remembered(request.messages[-1].content)
        lines, calls = [], []
        for feedback in request.moment.of("feedback"):
            label, is_kept = told_by(feedback.data)
            entry = entry_of(label, is_kept)
            lines.append(entry)
            if entry not in notes:
                notes = [*(each for each in notes if each != entry_of(label, not is_kept)), entry][-MOST:]
                calls.append(write_call("strategy_hub", {"action": "update", "strategies": notes}))
        for conflict in request.moment.of("conflict"):
            said, ranking, best = decided(labels_of(conflict.data), notes)
            lines += said
            reason = f"{best} by the notes"
            calls.append(write_call("decide", {"accept": ranking[0], "ranking": ranking, "reason": reason}))
        text = "\n".join([*lines, *calls])
        return Generation(text=text, count=len(text.split()), version="noting teacher")


def told_by(feedback: Mapping[str, Any]) -> tuple[str, bool]:
    """The principle that the user's words are about, and whether such events are kept."""
    because = feedback["because"]
    return LABELS[because["principle"]], because["valued"]


def entry_of(label: str, is_kept: bool) -> str:
    return label + (_KEEP if is_kept else _DROP)


def labels_of(conflict: Mapping[str, Any]) -> dict[str, list[str]]:
    """The principles that each event is about, in the order in which its line names what they follow from."""
    found = {}
    for event in conflict["events"]:
        tags = list(event)
        named = [(_TAGS[name], LABELS[name]) for name in terms(event)]
        found[event["letter"]] = [label for _, label in sorted(named, key=lambda pair: tags.index(pair[0]))]
    return found


def worth_of(notes: Sequence[str]) -> dict[str, int]:
    """What each principle that is noted counts."""
    return {entry.removesuffix(_KEEP).removesuffix(_DROP): 1 if entry.endswith(_KEEP) else -1 for entry in notes}


def decided(events: Mapping[str, Sequence[str]], notes: Sequence[str]) -> tuple[list[str], list[str], int]:
    """A line for each event with what the notes say of it, one for their order, that order, and the largest sum."""
    worth = worth_of(notes)
    sums, lines = dict[str, int](), []
    for letter, labels in events.items():
        count, marked = 0, []
        for label in labels:
            count += worth.get(label, 0)
            marked.append(f"{entry_of(label, worth[label] > 0)} {count}" if label in worth else label)
        sums[letter] = count
        lines.append(f"{letter}: {', '.join(marked) or 'nothing'} = {count} for {letter}")
    ranking = sorted(sums, key=lambda letter: -sums[letter])
    lines.append(", ".join(f"{sums[letter]} for {letter}" for letter in ranking))
    return lines, ranking, sums[ranking[0]]
