"""Turns a trajectory into drafts of skills, and into cases: what was asked, what was answered, and what came of it.

    >>> trip = Trajectory(
    ...     id="t1", user="ana", query="move my meeting", scenarios=("rescheduling",),
    ...     steps=(Step("look", tool="calendar"), Step("send", tool="mail")), outcome="Ana prefers mornings.",
    ... )
    >>> for draft in extract(trip):
    ...     print(draft.text, draft.tools)
    For rescheduling: Ana prefers mornings. ('calendar', 'mail')

The query and messages never become part of a skill, and nothing does that nobody said: maxims are for a model to write,
which is any callable of the type `Extractor`. What worked is kept as a case, to be shown to a policy as a
demonstration: a skill whose text is the request. The answer and the verdict are its metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

from ...errors import BadInputError
from ...writing.secrets import has_secret
from ..records import Hit, NewSkill

NEW_SKILLS = 3  # default maximum of new skills, as in the flat skill lists that the parpo-psgm paper compares with
MAXIMUM_CLAUSE_LENGTH = 120
CASES: Mapping[str, Any] = {"case.answer": {"$exists": True}}  # the filter by which cases are recalled
GOOD = 0.5  # verdict from which on an answer is shown as one to copy
LETTERS = 4  # characters of a token, where nothing counts tokens


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
    kept: tuple[str, ...] = ()
    """What the user said that becomes skills word by word, whatever the reward."""


@dataclass(frozen=True, slots=True)
class SkillDraft:
    """A skill as it was extracted, before it is compared with existing ones."""

    text: str
    tools: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    wish: bool = False
    """Whether it is something that the user asked for, rather than a way that worked."""


Extractor = Callable[[Trajectory, int], Sequence[SkillDraft]]
"""Called with a trajectory and the maximum number of drafts. Wishes are learned from a reward of `wishes_from` on, the
other drafts from `learn_from` on."""

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
    return [SkillDraft(about + one, worked, trajectory.scenarios, wish=True) for one in wishes.values()][:maximum]


@dataclass(frozen=True, slots=True)
class Case:
    """One request with its answer."""

    id: str
    request: str
    answer: str
    verdict: float
    """What came of the answer: from 0 (bad) to 1 (good)."""
    owner: str
    score: float = 0.0

    @property
    def good(self) -> bool:
        return self.verdict >= GOOD


def case_of(trajectory: Trajectory, reward: float, *, shared: bool) -> list[NewSkill]:
    """Return the case of a trajectory, and that of a correction, as skills. Without an answer there are none."""
    answers = {trajectory.answer: reward, trajectory.corrected: 1.0}
    return [
        NewSkill(
            trajectory.user,
            trajectory.query,
            scenarios=trajectory.scenarios,
            visibility="shared" if shared else "private",
            metadata={"case": {"answer": answer, "verdict": min(max(verdict, 0.0), 1.0)}},
        )
        for answer, verdict in answers.items()
        if answer.strip() and trajectory.query.strip() and not has_secret(f"{trajectory.query}\n{answer}")
    ]


def chosen_cases(
    hits: Iterable[Hit], k: int, tokens: int, count: Callable[[str], int] | None, *, bad: bool
) -> list[Case]:
    """Return the k best cases that fit a budget of tokens, the best last. Bad ones only where they are asked for. Of
    several cases of one request and owner the newest says how it is answered now."""
    counted = count or (lambda text: len(text) // LETTERS + 1)
    newest: dict[tuple[str, str, bool], tuple[float, Case]] = {}
    for hit in hits:
        skill, about = hit.skill, hit.skill.metadata["case"]
        case = Case(skill.id, skill.text, about["answer"], about["verdict"], skill.owner, hit.score)
        key = case.owner, case.request, case.good
        if key not in newest or skill.recorded_at > newest[key][0]:
            newest[key] = skill.recorded_at, case
    found: list[Case] = []
    for _, case in newest.values():
        needed = counted(as_text([case]))
        if (case.good or bad) and len(found) < k and needed <= tokens:
            tokens -= needed
            found.append(case)
    return found[::-1]


def as_messages(cases: Sequence[Case]) -> list[dict[str, str]]:
    """Return good cases as turns of a conversation before the request. Bad ones a model would say again."""
    turns = (turn for case in cases if case.good for turn in (("user", case.request), ("assistant", case.answer)))
    return [{"role": role, "content": content} for role, content in turns]


def as_text(cases: Sequence[Case]) -> str:
    """Return cases as text before a prompt."""
    answers = (f"{'Answer' if case.good else 'Not this answer'}: {case.answer}" for case in cases)
    return "\n\n".join(f"Request: {case.request}\n{answer}" for case, answer in zip(cases, answers, strict=True))
