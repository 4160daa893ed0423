"""Prompting styles for language models: direct, reasoning, reasoning over memory, and StrategyHub.

A style only changes what the model is told. Rounds, tools and scoring are the same, so styles can be compared on the
same users.

    agentfw run calendar-zero-shot --set policy.base_url=http://localhost:8000/v1
    agentfw run calendar-react
    agentfw run calendar-memory-react
    agentfw run calendar-strategyhub

They are the settings of PEARL's evaluation (its section 4 and appendix D), in words of our own. There the answer is
JSON in a single turn; here it is a call of `decide`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

__all__ = ["STYLES", "Style", "instructions"]

Style = Literal["plain", "zero_shot", "react", "memory_react", "strategyhub"]

STYLES: Mapping[Style, str] = {
    "plain": "",
    "zero_shot": """\
Answer each conflict at once, by calling `decide`: one event to keep, a ranking with the letters of all events, and a
short reason.""",
    "react": """\
Think before you decide, and let it be seen. Write <reasoning> first: go through the events one by one, say what speaks
for and against each, and weigh them for this person. Close it with </reasoning>. Then decide, by calling `decide`
with one event to keep, a ranking with the letters of all events, and a short reason. Nothing counts as a decision but
that one call.""",
    "memory_react": """\
Work in three steps, and let them be seen. Write <observation> first: of the earlier conflicts that you can still see,
say which event this person kept, what you had taken, and what they gave as the reason. Close it with </observation>.
Then write <reasoning>: what these choices have in common, and what that means for each of the events at hand. Close it
with </reasoning>. Then decide, by calling `decide` with one event to keep, a ranking with the letters of all events,
and a short reason. Nothing counts as a decision but that one call.""",
    "strategyhub": """\
You have a notebook about this person: the tool `strategy_hub`. It holds a few short strategies and stays with you when
the conversation is cut off. At each conflict, list it first. Compare what it says with what the person kept last: where
a strategy was wrong, too broad or missing, put a better list in its place with an update; where it was right, leave it.
Write down what decides and how much it counts, not single events. Then decide by it: call `decide` with one event to
keep, a ranking with the letters of all events, and a short reason. Every call is a turn, and there are only a few for
each conflict: the decision has to be among them.""",
}
"""Text added after the environment's own goal."""


def instructions(goal: str, style: Style) -> str:
    """The instructions for a model."""
    return f"{goal}\n\n{STYLES[style]}".rstrip()
