"""A teacher for pretrained models: it notes in the hub what the user keeps and drops, and decides by counting the notes.

What it knows of the user is in the message that it answers: the hub's entries, and what the feedback names. It writes
what it does in small steps, so that a model can learn it from a few hundred answers: what it has learned, what speaks
for and against each event, in the notes' own words, its sum, and the order of the sums. Nearly all of it can be copied
from the message or from the line before, which is what a small model does best.

    in person: keep
    A: in person: keep, part of a series = 1 for A
    B: teaching and learning, marked urgent: drop, in person: keep = 0 for B
    C: just the two of us = 0 for C
    1 for A, 0 for B, 0 for C
    <tool_call>{"name": "strategy_hub", "arguments": {"action": "update", "strategies": ["marked urgent: drop", ...]}}</tool_call>
    <tool_call>{"name": "decide", "arguments": {"accept": "A", "ranking": ["A", "B", "C"], "reason": "1 by the notes"}}</tool_call>

    agentfw run calendar --policy ./noting_teacher.py --memory strategyhub --set memory.strategyhub.show=true

The shipped `teacher` weighs twenty principles and writes every sum, in more than twice as many tokens.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentfw import Generation, Policy, Request
from agentfw_plugins.worlds.calendar.principles import vocabulary
from agentfw_plugins.worlds.calendar.scratchpad import LABELS, terms, write_call
from agentfw_plugins.worlds.calendar.teacher_policy import remembered

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
            because = feedback.data["because"]
            entry = LABELS[because["principle"]] + (_KEEP if because["valued"] else _DROP)
            lines.append(entry)
            if entry not in notes:
                opposite = LABELS[because["principle"]] + (_DROP if because["valued"] else _KEEP)
                notes = [*(each for each in notes if each != opposite), entry][-MOST:]
                calls.append(write_call("strategy_hub", {"action": "update", "strategies": notes}))
        for conflict in request.moment.of("conflict"):
            events = {event["letter"]: labels_of(event) for event in conflict.data["events"]}
            said, decision = decided(events, notes)
            lines += said
            calls.append(decision)
        text = "\n".join([*lines, *calls])
        return Generation(text=text, count=len(text.split()), version="noting teacher")


def labels_of(event: Mapping[str, str]) -> list[str]:
    """The principles that an event is about, in the order in which its line names what they follow from."""
    tags = list(event)
    named = [(_TAGS[name], LABELS[name]) for name in terms(event)]
    return [label for _, label in sorted(named, key=lambda pair: tags.index(pair[0]))]


def decided(events: Mapping[str, Sequence[str]], notes: Sequence[str]) -> tuple[list[str], str]:
    """A line for each event with what the notes say of it, their order, and the call that keeps the first."""
    worth = {entry.removesuffix(_KEEP).removesuffix(_DROP): entry.endswith(_KEEP) for entry in notes}
    sums, lines = dict[str, int](), []
    for letter, labels in events.items():
        noted = [label for label in labels if label in worth]
        sums[letter] = sum(1 if worth[label] else -1 for label in noted)
        marked = [label + (_KEEP if worth[label] else _DROP) if label in worth else label for label in labels]
        lines.append(f"{letter}: {', '.join(marked) or 'nothing'} = {sums[letter]} for {letter}")
    ranking = sorted(sums, key=lambda letter: -sums[letter])
    lines.append(", ".join(f"{sums[letter]} for {letter}" for letter in ranking))
    return lines, write_call(
        "decide", {"accept": ranking[0], "ranking": ranking, "reason": f"{sums[ranking[0]]} by the notes"}
    )
