"""The policy `teacher`: what `tiny` was taught by, a program that thinks aloud and keeps what it learns in the hub.

The one rule: it has no memory but the hub. All it knows of the user stands in the message that it answers: the
entries of the hub, the feedback and the events. So its answers show how to use the hub.

    agentfw run calendar --policy teacher --memory strategyhub --set memory.strategyhub.show=true

What it does with a feedback (weights are integers, four to a point): what the user names weighs at least eight in its
direction; where the decision was wrong at least ten, and six more than before. Chosen among such rules on training
users. A rule that moves what speaks for the kept event and against the best other errs less (by 0.01 to 0.02), and took
the small model longer to learn than there was time.

What it expects of a role before the first feedback are the weights that best explain what training users in that role
chose: `python tests/benchmarks/tiny_policy.py --fit` makes the file.
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
    read_weights,
    terms,
    value,
    write_call,
    write_decision,
    write_named,
    write_valued,
    write_weights,
)

__all__ = ["ROLES_FILE", "TeacherPolicy", "TeacherSettings", "expected_of", "learned"]

ROLES_FILE = Path(__file__).parent / "teacher_roles.json"
_RIGHT, _WRONG, _MORE, _MOST = 8, 10, 6, 40


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
    for feedback in moment.of("feedback"):
        said = learned(weights, feedback)
    for conflict in moment.of("conflict"):
        valued = [value(event["letter"], terms(event), weights) for event in conflict.data["events"]]
        said += [*write_valued(valued, weights), write_decision(valued, weights)]
    return said


def learned(weights: dict[str, int], feedback: Observation) -> list[str]:
    """What the user named and what it weighs from now on, noted in `weights`; a call only where it weighs more."""
    because = feedback.data["because"]
    name, valued = because["principle"], because["valued"]
    if name not in NAMES:
        return []
    wrong = feedback.data["accepted"] != feedback.data["chosen"]
    sign, had = (1 if valued else -1), weights.get(name, 0)
    felt = sign * had
    weighs = sign * max(felt, min(max(_WRONG, felt + _MORE) if wrong else _RIGHT, _MOST))
    weights[name] = weighs
    named = write_named(name, valued, wrong, had, weighs)
    return [named, _update(weights)] if weighs != had else [named]


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
