"""What the agent reads: the instructions of the three prompting styles, the dialogue, and the states of actions.

The styles are the baselines of the ProActor paper (section 4.2): answer at once, think first, and think with the states
of the actions so far. The texts are our own. They differ in the instructions alone: the same seed asks the same
questions about the same dialogues.

    >>> from agentfw_papers.timing import Input, Opportunity
    >>> ready = Opportunity("send-link", "ready_to_trigger", (Input("email", True, "jwu@email.com"), Input("phone")))
    >>> write_answer([ready], "lines")
    'send-link ready_to_trigger email=jwu@email.com phone=?'
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from agentfw_papers.timing import Catalog, Dialogue, Opportunity

from .settings import Answers, ProactiveSettings

_TASK = (
    "You listen to a customer and a professional without taking part. After each turn, say which actions of the "
    "catalog will be needed, as far as the dialogue so far shows it. For each action, give the inputs that are known "
    "so far and its status: `pending` while something is missing or it is too early, `ready_to_trigger` as soon as it "
    "could be triggered now, `triggered` when it has just been done, `repeatable` when it may be done again, and "
    "`dismissed` when it isn't needed any more. An action that is ready late helps nobody, and one that is ready "
    "without reason does harm. If nothing is foreseeable, say nothing."
)
_STYLES = {
    "plain": "Answer at once, without an explanation.",
    "reasoning": (
        "First think, between <think> and </think>: what the customer wants, which actions follow from it, what is "
        "known and what is missing. Then answer between <action> and </action>."
    ),
    "asg": (
        "Before the dialogue you read the state of every action so far: your own last predictions, and actions that "
        "were triggered. Think first, between <think> and </think>: what the last turns change in these states. Then "
        "answer between <action> and </action> with the actions that matter now."
    ),
}
_SHAPES: dict[Answers, str] = {
    "json": (
        'Write the answer as JSON: {"opportunities": [{"name": "ACTION", "status": "STATUS", "inputs": {"INPUT": '
        '"value, or null if it isn\'t known yet"}}]}. An empty list says that nothing is foreseeable.'
    ),
    "lines": (
        "Write one line for each action: ACTION STATUS input=value input=?, where ? stands for a value that isn't "
        "known yet. The line `nothing` says that nothing is foreseeable."
    ),
    "calls": "Answer with one call of `predict`. An empty list says that nothing is foreseeable.",
}
_QUESTIONS: dict[Answers, str] = {
    "json": 'Under "questions", list what the professional should ask next to learn what is missing.',
    "lines": "Then write what the professional should ask next, one line each that begins with `question:`.",
    "calls": "Under `questions`, list what the professional should ask next to learn what is missing.",
}


def instructions(settings: ProactiveSettings, catalog: Catalog) -> str:
    """The system prompt."""
    parts = [_TASK, _STYLES[settings.style], _SHAPES[settings.answers]]
    if settings.questions:
        parts.append(_QUESTIONS[settings.answers])
    if listed := catalog.render(settings.catalog):
        parts.append(f"The catalog:\n{listed}")
    return "\n\n".join(parts)


def dialogue_lines(dialogue: Dialogue, first: int, last: int) -> str:
    """The turns from `first` to `last`, one a line with its number and speaker."""
    turns = list(enumerate(dialogue.turns, start=1))[first - 1 : last]
    return "\n".join(f"{number} {turn.speaker}: {' '.join(turn.text.split())}" for number, turn in turns)


def write_states(states: Iterable[Opportunity]) -> str:
    """The states of the actions so far, as the agent reads them."""
    return "states so far:\n" + ("\n".join(map(_line, states)) or "none")


def write_answer(opportunities: Sequence[Opportunity], answers: Answers, questions: Sequence[str] = ()) -> str:
    """A prediction as an agent would write it."""
    if answers == "lines":
        return "\n".join([*map(_line, opportunities), *(f"question: {one}" for one in questions)]) or "nothing"
    return json.dumps(prediction(opportunities, questions), ensure_ascii=False)


def prediction(opportunities: Sequence[Opportunity], questions: Sequence[str] = ()) -> dict[str, Any]:
    """A prediction as the JSON values of an answer."""
    rows = [
        {"name": one.name, "status": one.status, "inputs": {name: part.value for name, part in one.inputs.items()}}
        for one in opportunities
    ]
    return {"opportunities": rows, **({"questions": list(questions)} if questions else {})}


def _line(one: Opportunity) -> str:
    inputs = (f"{name}={part.value if part.value is not None else '?'}" for name, part in one.inputs.items())
    return " ".join([one.name, one.status, *inputs])
