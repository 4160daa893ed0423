"""Turns a trajectory into drafts of skills.

    >>> trip = Trajectory(
    ...     id="t1", user="ana", query="move my meeting", scenarios=("rescheduling",),
    ...     steps=(Step("look", tool="calendar"), Step("send", tool="mail")), outcome="Ana prefers mornings.",
    ... )
    >>> for draft in extract(trip):
    ...     print(draft.text, draft.tools)
    For rescheduling: Ana prefers mornings. ('calendar', 'mail')

`extract` takes what the user said of how it ended, as it was said. A graph passes only what of it lasts. The query and
messages never become part of a skill, and nothing does that nobody said: maxims are for a model to write, which is any
callable of the type `Extractor`. What worked is kept as a case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import shorten

from agentfw_memory.errors import BadInputError

NEW_SKILLS = 3
"""Default maximum of new skills, as in the flat skill lists that the parpo-psgm paper compares with."""
MAXIMUM_CLAUSE_LENGTH = 120


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a trajectory."""

    action: str
    tool: str = ""
    worked: bool = True


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What happened for one user and one query."""

    id: str
    user: str
    query: str
    scenarios: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    outcome: str = ""
    """What the user said about how it ended. Words of others don't belong here: wishes are learned from it."""
    skills: tuple[str, ...] = ()
    """Ids of the skills that were used."""
    shown: tuple[str, ...] = ()
    """Ids of the skills that were shown for the query, if the reward is what the user thought of the answer."""
    answer: str = ""
    """What was answered. With it, the query and the answer become a case, whose verdict is the reward."""
    corrected: str = ""
    """What the user would have answered instead. It becomes a case, too."""


@dataclass(frozen=True, slots=True)
class SkillDraft:
    """A skill as it was extracted, before it is compared with existing ones."""

    text: str
    tools: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    wish: bool = False
    """Whether it is something that the user asked for, rather than a way that worked."""


Extractor = Callable[[Trajectory, int], Sequence[SkillDraft]]
"""Called with a trajectory and the maximum number of drafts.

Wishes are learned from trajectories with a reward of at least `wishes_from`, the other drafts from `learn_from` on."""

PRIVATE = re.compile(r"@|https?:|www\.|\d{4,}|\d[\d\s().-]{6,}\d")
_LINE_END = re.compile(r"(?<=[.!?;。！？؟])\s+|\n+")


def extract(trajectory: Trajectory, maximum: int = NEW_SKILLS) -> list[SkillDraft]:
    """Return what the user said, sentence by sentence. Sentences with numbers, addresses or links are left out."""
    if maximum < 0:
        raise BadInputError(f"can't extract {maximum} skills from a trajectory", fix="pass a maximum of 0 or more")
    about = f"For {' and '.join(trajectory.scenarios)}: " if trajectory.scenarios else ""
    worked = tuple(dict.fromkeys(step.tool for step in trajectory.steps if step.tool and step.worked))
    said = [shorten(one, MAXIMUM_CLAUSE_LENGTH, placeholder="") for one in _LINE_END.split(trajectory.outcome)]
    wishes = {one.casefold(): one for one in said if re.search(r"\w", one) and not PRIVATE.search(one)}
    drafts = [SkillDraft(about + one, worked, trajectory.scenarios, wish=True) for one in wishes.values()]
    return drafts[:maximum]
