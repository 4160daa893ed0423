"""The policy `teacher`: what `tiny` was taught by, a program that thinks aloud and keeps what it learns in the hub.

The one rule: it has no memory but the hub. Everything it knows of the user it reads from the conversation, the entries
of the hub and its own last answer, as a language model would; so its answers show how to use the hub.

    agentfw run calendar --policy teacher --memory strategyhub --set memory.strategyhub.show=true

What it does with a feedback (weights are integers, four to a point): unless the kept event was ahead of the best other
by three, what speaks for the kept one weighs one more and what for the other one less. What the user names weighs at
least eight in its direction, and two more where the decision was wrong. Chosen among such rules on training users.

What it expects of a role before the first feedback is the mean of what the same rule, expecting nothing, had learned of
the training users in that role by the end of their year: `python tests/benchmarks/tiny_policy.py --fit` makes the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from agentfw import Settings
from agentfw.agent import Moment
from agentfw.episode import Message, Observation
from agentfw.policy import Generation, Policy, Request

from .scratchpad import (
    NAMES,
    Thought,
    Valued,
    read_valued,
    read_weights,
    terms,
    value,
    write_call,
    write_decision,
    write_valued,
    write_weights,
)

__all__ = ["ROLES_FILE", "TeacherPolicy", "TeacherSettings", "expected_of", "learn"]

ROLES_FILE = Path(__file__).parent / "teacher_roles.json"
_LEAD, _NAMED, _WRONG, _MOST = 3, 8, 2, 40


class TeacherSettings(Settings):
    prior: Literal["fitted", "flat"] = Field(
        "fitted", description="What is expected of a user at first: what its role's training users came to, or nothing."
    )


class TeacherPolicy(Policy):
    """Answers as a language model would, in text."""

    def __init__(self, settings: TeacherSettings | None = None) -> None:
        self.settings = settings or TeacherSettings()

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        expected = expected_of if self.settings.prior == "fitted" else _nothing
        text = "\n".join(_answer(request.messages, request.moment, expected))
        return Generation(text=text, count=len(text.split()), version="teacher")


def _answer(messages: Sequence[Message], moment: Moment, expected: Callable[[str], Mapping[str, int]]) -> list[str]:
    weights = read_weights(_remembered(messages[-1].content))
    said = []
    if not weights:
        for conflict in moment.of("conflict"):
            weights = dict(expected(f"{conflict.data['archetype']}/{conflict.data['role']}"))
            said = [_update(weights)]
    before = read_valued(next((each.content for each in reversed(messages) if each.role == "assistant"), ""))
    for feedback in moment.of("feedback"):
        thought = think(weights, before, feedback)
        if thought:
            said = [str(thought)]
            after = learn(weights, thought)
            if after != weights:
                weights = after
                said.append(_update(weights))
    for conflict in moment.of("conflict"):
        valued = [value(event["letter"], terms(event), weights) for event in conflict.data["events"]]
        said += [*write_valued(valued, weights), write_decision(valued, weights)]
    return said


def think(weights: Mapping[str, int], before: Mapping[str, Valued], feedback: Observation) -> Thought | None:
    """What a feedback says about the last answer; nothing where that can't be read."""
    kept, chosen = feedback.data["accepted"], feedback.data["chosen"]
    others = [event for letter, event in before.items() if letter != kept]
    if kept not in before or not others:
        return None
    mine, rival = before[kept], max(others, key=lambda event: event.total)
    now = {name: weights.get(name, 0) for name in NAMES}
    more, less = [], []
    if mine.total - rival.total < _LEAD:
        more = [_moved(now, name, 1) for name in mine.terms]
        less = [_moved(now, name, -1) for name in rival.terms]
    name = feedback.data["because"]["principle"]
    named = None
    if name in NAMES:
        sign = 1 if feedback.data["because"]["valued"] else -1
        had = now[name] * sign
        grown = _NAMED if had < _NAMED else had + _WRONG if kept != chosen else had
        if grown != had:
            named = (name, sign * min(grown, _MOST))
    return Thought(kept, mine.total, rival.letter, rival.total, tuple(more), tuple(less), named)


def _moved(now: dict[str, int], name: str, step: int) -> tuple[str, int]:
    """A principle with its new weight, which is noted as well."""
    now[name] = max(-_MOST, min(_MOST, now[name] + step))
    return name, now[name]


def learn(weights: Mapping[str, int], thought: Thought) -> dict[str, int]:
    """The weights after a thought."""
    named = (thought.named,) if thought.named else ()
    return {**dict.fromkeys(NAMES, 0), **weights, **dict((*thought.more, *thought.less, *named))}


def _update(weights: Mapping[str, int]) -> str:
    return write_call("strategy_hub", {"action": "update", "strategies": write_weights(weights)})


def _remembered(text: str) -> list[str]:
    """The hub's entries in what the agent reads."""
    _, _, rest = text.partition("You remember:\n")
    entries = []
    for line in rest.splitlines():
        if not line.startswith("- "):
            break
        entries.append(line[2:])
    return entries


def _nothing(role: str) -> Mapping[str, int]:
    return dict.fromkeys(NAMES, 0)


def expected_of(role: str) -> Mapping[str, int]:
    """What people in a role usually care about; of everybody where the role is new."""
    table = _roles()
    return table.get(role, table["anybody"])


@cache
def _roles() -> Mapping[str, Mapping[str, int]]:
    table: dict[str, dict[str, int]] = json.loads(ROLES_FILE.read_text("utf-8"))["roles"] if ROLES_FILE.exists() else {}
    return {"anybody": dict.fromkeys(NAMES, 0), **table}
