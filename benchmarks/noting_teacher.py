"""A teacher for pretrained models: it notes in the hub what the user keeps and drops, and decides by counting the notes.

What it knows of the user is in the message that it answers: the hub's entries, and what the feedback names. It writes
what it does, so that a model can learn it from a few hundred answers: what it has learned, which events each note is
about, and their sums.

    in person: keep
    marked urgent: drop B
    in person: keep A
    A 1, B -1, C 0
    <tool_call>{"name": "strategy_hub", "arguments": {"action": "update", "strategies": ["marked urgent: drop", ...]}}</tool_call>
    <tool_call>{"name": "decide", "arguments": {"accept": "A", "ranking": ["A", "C", "B"], "reason": "in person"}}</tool_call>

    agentfw run calendar --policy ./noting_teacher.py --memory strategyhub --set memory.strategyhub.show=true

The shipped `teacher` weighs twenty principles and writes every sum, three times as many tokens.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from agentfw import Generation, Policy, Request
from agentfw_plugins.worlds.calendar.scratchpad import LABELS, terms, write_call
from agentfw_plugins.worlds.calendar.teacher_policy import remembered

MOST = 10
"""Entries of the hub. The oldest make room."""
_KEEP, _DROP = ": keep", ": drop"


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
            events = {event["letter"]: {LABELS[name] for name in terms(event)} for event in conflict.data["events"]}
            said, decision = decided(events, notes)
            lines += said
            calls.append(decision)
        text = "\n".join([*lines, *calls])
        return Generation(text=text, count=len(text.split()), version="noting teacher")


def decided(events: Mapping[str, Set[str]], notes: Sequence[str]) -> tuple[list[str], str]:
    """A line for each note with the events it is about, one with their sums, and the call that keeps the best event."""
    sums, lines, reasons = dict.fromkeys(events, 0), [], dict[str, str]()
    for entry in notes:
        label, kept = entry.removesuffix(_KEEP).removesuffix(_DROP), entry.endswith(_KEEP)
        about = [letter for letter, labels in events.items() if label in labels]
        lines.append(f"{entry} {', '.join(about) or 'none'}")
        for letter in about:
            sums[letter] += 1 if kept else -1
            if kept:
                reasons.setdefault(letter, label)
    lines.append(", ".join(f"{letter} {total}" for letter, total in sums.items()))
    ranking = sorted(sums, key=lambda letter: -sums[letter])
    reason = reasons.get(ranking[0], "the others less")
    return lines, write_call("decide", {"accept": ranking[0], "ranking": ranking, "reason": reason})
