"""The teacher of `tiny`: a program that reasons in writing, and the reward for reasoning that follows from what was read.

    agentfw run calendar --policy model_making/calendar_teacher.py:TeacherPolicy --memory strategyhub \\
        --set memory.strategyhub.show=true
    agentfw train --spec model_making/calendar-thought.toml

It writes down what it has learned of the user, and what each event is worth. Everything that decides is written down: the weights in the hub's text, the sums on the lines of the events, and each
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
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from agentfw import (
    Episode,
    Generation,
    Message,
    Moment,
    Observation,
    Policy,
    Request,
    RewardModel,
    Score,
    Settings,
    Turn,
)
from agentfw_plugins.worlds.calendar.schema import vocabulary

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


ROLES_FILE = Path(__file__).parent / "calendar_teacher_roles.json"
_MOST = 40
_NAMED = {False: (10, 1), True: (12, 4)}
"""What is named weighs at least so much, and so much more than before: where the decision was right, and wrong."""
_CLEAR, _BEHIND, _STEPS = 8, 4, 3
"""From here on the kept event is clearly ahead; being so far from the lead adds another step of five; at most three."""


class TeacherSettings(Settings):
    prior: Literal["fitted", "flat"] = Field(
        "fitted", description="Prior expectation of a user: fitted on training users in the same role, or flat."
    )
    attention: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of rounds in which it learns from the feedback; in the others it only decides.",
    )


class TeacherPolicy(Policy):
    """A program that reasons in writing and keeps what it learns in the hub. It taught `tiny`.

    Its only memory is the hub. All it knows of the user is in the message that it answers (the hub's entries, the
    feedback and the events) and in its previous answer. So its answers show how to use the hub.

    What it does with a feedback (weights are integers, three and a half to a point): what the user names weighs at
    least ten in its direction, and one more than before; where the decision was wrong at least twelve, and four more.
    Then the kept event is compared with its rival, which is the decided one, or the second best where the decision was
    right. All that the kept event has counts a step more, and all that its rival has a step less, so that what both
    have stays as it was. The step is the greater, the further the kept event is behind, and nothing where the decision
    was right and clear. What both have stands in its last answer. Chosen among such rules on training users.

    What it expects of a role before the first feedback are the weights that best explain what training users in that
    role chose: `python benchmarks/calendar_players.py tiny --fit` makes the file.
    """

    is_program = True

    def __init__(self, settings: TeacherSettings | None = None) -> None:
        self.settings = settings or TeacherSettings()

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        expected = expected_of if self.settings.prior == "fitted" else _nothing
        draw = random.Random(f"attention {request.task} {request.moment.round}").random()
        text = "\n".join(_answer(request.messages, request.moment, expected, draw < self.settings.attention))
        return Generation(text=text, count=len(text.split()), version="teacher")


def _answer(
    messages: Sequence[Message], moment: Moment, expected: Callable[[str], Mapping[str, int]], learns: bool
) -> list[str]:
    weights = read_weights(remembered(messages[-1].content))
    said = []
    if not weights:
        for conflict in moment.of("conflict"):
            weights = dict(expected(f"{conflict.data['archetype']}/{conflict.data['role']}"))
            said = [_update(weights)]
    # Its answer in the turn before.
    thought = read_terms(next((each.content for each in reversed(messages) if each.role == "assistant"), ""))
    for feedback in moment.of("feedback") if learns else ():
        said = learned(weights, feedback, thought)
    for conflict in moment.of("conflict"):
        valued = [value(event["letter"], terms(event), weights) for event in conflict.data["events"]]
        said += [*write_valued(valued, weights), write_decision(valued, weights)]
    return said


def learned(weights: dict[str, int], feedback: Observation, thought: Mapping[str, Sequence[str]]) -> list[str]:
    """Update `weights` and return the lines that say so; there is a call only if something changed.

    `thought` has what each event of the last round triggers.
    """
    because = feedback.data["because"]
    name, valued = because["principle"], because["valued"]
    if name not in NAMES:
        return []
    kept, decided = feedback.data["accepted"], feedback.data["chosen"]
    wrong, before = kept != decided, dict(weights)
    sign, had = (1 if valued else -1), weights.get(name, 0)
    least, more = _NAMED[wrong]
    felt = sign * had
    weights[name] = sign * max(felt, min(max(least, felt + more), _MOST))
    said = [write_named(name, valued, wrong, had, weights[name])]
    rival = decided if wrong else feedback.data.get("second", "")
    if kept in thought and rival in thought:
        said += _moved(weights, value(kept, thought[kept], weights), value(rival, thought[rival], weights), wrong)
    return [*said, _update(weights)] if weights != before else said


def _moved(weights: dict[str, int], kept: Valued, rival: Valued, wrong: bool) -> list[str]:
    """Move the weights of what the kept event and its rival have, and return the lines that say so."""
    ahead = kept.total - rival.total
    step = min(max(-(-(_BEHIND - ahead) // 5), 1), _STEPS) if wrong else int(ahead < _CLEAR)
    said = [write_now(kept, weights), write_now(rival, weights), write_step(kept, rival, step)]
    for what, event, way in (("kept", kept, step), ("rival", rival, -step)) if step else ():
        moved = [(one, weights.get(one, 0)) for one in event.terms]
        weights |= {one: max(-_MOST, min(_MOST, weight + way)) for one, weight in moved}
        said.append(write_moved(what, event.letter, moved, weights))
    return said


def _update(weights: Mapping[str, int]) -> str:
    return write_call("strategy_hub", {"action": "update", "strategies": write_weights(weights)})


def remembered(text: str) -> list[str]:
    """The hub's entries in the message that the agent reads."""
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
    """What people in a role usually care about, or people in general for an unknown role."""
    table = _roles()
    return table.get(role, table["anybody"])


@cache
def _roles() -> Mapping[str, Mapping[str, int]]:
    table: dict[str, dict[str, int]] = json.loads(ROLES_FILE.read_text("utf-8"))["roles"] if ROLES_FILE.exists() else {}
    return {"anybody": dict.fromkeys(NAMES, 0), **table}


Weights = Mapping[str, int]


class CalendarThought(RewardModel):
    """The share of reasoning steps that follow from what the agent read.

    It uses nothing hidden except what the user named in their own words. Every step is recomputed from the round's
    message and the agent's own weights. Whether these weights are right is for `calendar_decision` to judge.

    A turn that decides is judged by these steps, each right or wrong:

    | step | right where |
    | --- | --- |
    | what the user named | the feedback's principle, side and verdict are named, and what it weighed before |
    | the memory | has every weight as it was, but that of what was named, which goes the named way |
    | the line of each event | has all that the event triggers, with its weights, the sums, and the best so far |
    | the decision | is the event worth most, the first of equals |

    Where the decision was wrong, what the kept and the decided event trigger may move, too; where it was right, what
    any event of the round triggers. It speaks of agents that think as `tiny` does;
    others get 0.
    """

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [
            Score(episode.id, "calendar_thought", share, "base", turn.round, turn.index)
            for episode in group
            for turn, share in _shares(episode)
        ]


def _shares(episode: Episode) -> list[tuple[Turn, float]]:
    read: dict[int, dict[str, Mapping[str, Any]]] = {}
    kept = set()
    number = 0
    for event in episode.events:
        if event.kind == "round":
            number = int(event.name)
        elif event.kind == "observation" and event.name == "conflict":
            read.setdefault(number, {})["conflict"] = event.data
        elif event.kind == "observation" and event.name == "feedback":
            read.setdefault(event.data["round"] + 1, {})["feedback"] = event.data
        elif event.kind == "observation" and event.name == "answer" and event.data.get("well"):
            kept.add(event.data.get("call"))
    weights: Weights = {}
    shares = []
    for turn in episode.turns:
        updates = [call for call in turn.calls if "strategies" in call.arguments]
        after = read_weights(updates[-1].arguments["strategies"]) if updates else weights
        decided = [call.arguments.get("accept") for call in turn.calls if call.name == "decide"]
        if decided and "conflict" in read.get(turn.round, {}):
            before = read.get(turn.round - 1, {}).get("conflict", {}).get("events", ())
            steps = _steps(turn.text.splitlines(), decided[0], (weights, after), before, **read[turn.round])
            shares.append((turn, sum(steps) / len(steps)))
        for update in updates:
            if update.id in kept:
                weights = read_weights(update.arguments["strategies"])
    return shares


def _steps(
    lines: Sequence[str],
    decided: object,
    weights: tuple[Weights, Weights],
    last: Sequence[Mapping[str, str]],
    conflict: Mapping[str, Any],
    feedback: Mapping[str, Any] | None = None,
) -> list[bool]:
    before, after = weights
    whole, steps = all(name in after for name in NAMES), []
    if feedback is not None and (name := feedback["because"]["principle"]) in NAMES:
        valued, had = feedback["because"]["valued"], before.get(name, 0)
        wrong = feedback["accepted"] != feedback["chosen"]
        named = write_named(name, valued, wrong, had, had).rpartition(" to ")[0]
        steps.append(any(line.startswith(f"{named} to ") for line in lines))
        about = [event for event in last if not wrong or event["letter"] in (feedback["accepted"], feedback["chosen"])]
        may_move = {moved for event in about for moved in terms(event)}
        stays = all(after.get(other) == before.get(other) for other in NAMES if other not in {name, *may_move})
        goes = after.get(name, 0) - had if valued else had - after.get(name, 0)
        whole = whole and stays and (goes >= 0 or name in may_move)
    events = [value(event["letter"], terms(event), after) for event in conflict["events"]]
    steps += [line in lines for line in write_valued(events, after)]
    best = max(events, key=lambda event: event.total)
    return [*steps, whole, bool(after) and decided == best.letter]
