"""How a graph of skills grows: what a trajectory taught, what is the same, what has to go.

The one rule: nothing here keeps anything. Trajectories and vectors in, drafts and places in a list out; what is done
with them is the graph's business, and each function can be replaced by another that takes and gives the same.

    >>> trip = Trajectory(
    ...     id="t1", user="ana", query="move my meeting", scenarios=("rescheduling",),
    ...     steps=(Step("look", tool="calendar"), Step("send", tool="mail")), outcome="Ana prefers the earliest slot.",
    ... )
    >>> for draft in extract(trip):
    ...     print(draft.text)
    For rescheduling, prefer the earliest slot
    For rescheduling, use calendar, then mail

`extract` works by rule. It reads the steps (which tool worked, which one stood in for which) and, in the outcome, the
sentences that say what the user wants; the query and what anybody wrote never go into a skill. A model that reads more
is any callable of the same form (`Extractor`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from textwrap import shorten

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.errors import BadInputError

__all__ = [
    "Extractor",
    "SkillDraft",
    "Step",
    "Trajectory",
    "Trim",
    "extract",
    "near_duplicates",
    "trim",
]

Float32Array = NDArray[np.float32]

NEW_SKILLS = 3
"""At most so many new skills an update, as in the flat skill lists that parpo-psgm compares with."""
LONGEST_CLAUSE = 120
BLOCK = 1024
"""Rows of likenesses computed at a time: 4 MB for a thousand vectors."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was done."""

    action: str
    tool: str = ""
    worked: bool = True


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What happened for one user on one query."""

    id: str
    user: str
    query: str
    scenarios: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    outcome: str = ""
    """How it ended, in words; may say what the user turned out to want."""
    skills: tuple[str, ...] = ()
    """Ids of the skills that were used."""


@dataclass(frozen=True, slots=True)
class SkillDraft:
    """A skill as it was read from a trajectory, before anybody compared it with what is there."""

    text: str
    tools: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()


Extractor = Callable[[Trajectory, int], Sequence[SkillDraft]]
"""Called with a trajectory worth learning from and the most skills that may come of it."""

# What a sentence says that somebody wants, and how a skill tells it.
_WISHES = (
    (r"(?:\bnot|n't|\bnever|\bno longer)\s+(?:want|like|need|prefer|ask for)s?\s+(.+)", "avoid"),
    (r"\b(?:dislike|hate|refuse|decline|reject)(?:s|d|ed)?\s+(.+)", "avoid"),
    (r"\b(?:prefers?|preferred|likes|liked|loves?|favou?rs?)\s+(.+)", "prefer"),
    (r"\b(?:wants?|wanted|asks? for|asked for)\s+(.+)", "give"),
    (r"\b(?:need|require)(?:s|d|ed)?\s+(.+)", "provide"),
)
_PRIVATE = re.compile(r"@|https?:|www\.|\d{4,}|\d[\d\s().-]{6,}\d")
_END = re.compile(r"[.!?;]+(?:\s+|$)|\n+")


def extract(trajectory: Trajectory, at_most: int = NEW_SKILLS) -> list[SkillDraft]:
    """What this trajectory taught: the user's wishes first, then what stood in for what, then the way itself."""
    if at_most < 0:
        raise BadInputError(f"{at_most} skills can't be drawn from a trajectory", fix="ask for none or more")
    head = f"For {' and '.join(trajectory.scenarios)}, " if trajectory.scenarios else ""
    worked = _in_order(step.tool for step in trajectory.steps if step.tool and step.worked)
    texts: list[tuple[str, tuple[str, ...]]] = [(wish, ()) for wish in _wishes(trajectory.outcome)]
    texts += [(f"when {failed} fails, use {helped}", (failed, helped)) for failed, helped in _stand_ins(trajectory)]
    if worked:
        texts.append((f"use {', then '.join(worked)}", worked))
    drafts: dict[str, SkillDraft] = {}
    for text, tools in texts:
        whole = head + text
        whole = whole[0].upper() + whole[1:]
        drafts.setdefault(whole.casefold(), SkillDraft(whole, tools or worked, trajectory.scenarios))
    return list(drafts.values())[:at_most]


def near_duplicates(vectors: Float32Array, threshold: float) -> list[tuple[int, int]]:
    """Which rows are more alike than the threshold: (the one that stays, the one that is like it).

    The earlier row stays; a row that has gone stands for no other, so that a chain of small steps doesn't merge its
    two ends.
    """
    gone = np.zeros(len(vectors), bool)
    found: list[tuple[int, int]] = []
    for start in range(0, len(vectors), BLOCK):
        likeness = vectors[start : start + BLOCK] @ vectors[start:].T
        for row, others in enumerate(likeness, start):
            if gone[row]:
                continue
            alike = np.flatnonzero(others > threshold) + start
            for other in alike[alike > row].tolist():
                if not gone[other]:
                    gone[other] = True
                    found.append((row, other))
    return found


@dataclass(frozen=True, slots=True)
class Trim:
    """How to come under a cap: which rows go into which, and which go altogether."""

    merged: tuple[tuple[int, int], ...] = ()
    """(the one that stays, the one that goes into it)"""
    retired: tuple[int, ...] = ()


def trim(
    vectors: Float32Array, utilities: Sequence[float], uses: Sequence[int], *, cap: int, merge_above: float
) -> Trim:
    """Bring a list of skills, oldest first, under a cap: by merging what is alike, then by retiring the least useful.

    Of two that are alike the more useful one stays. A skill's worth is its mean reward, drawn towards a half by one
    imagined use, so that one that nobody has tried yet isn't the first to go.
    """
    if cap < 0:
        raise BadInputError(f"a cap of {cap} can't be held", fix="give 0 or more")
    excess = len(vectors) - cap
    if excess <= 0:
        return Trim()
    worth = [(0.5 + utility * count) / (1 + count) for utility, count in zip(utilities, uses, strict=True)]
    # The most useful first, of equals the newest: whoever comes first stays.
    order = sorted(range(len(vectors)), key=lambda row: (-worth[row], -row))
    alike = near_duplicates(vectors[order], merge_above)
    merged = [(order[stays], order[goes]) for stays, goes in alike][:excess]
    gone = {goes for _, goes in merged}
    left = [row for row in reversed(order) if row not in gone]
    return Trim(tuple(merged), tuple(left[: excess - len(merged)]))


def _wishes(outcome: str) -> list[str]:
    """What a text says that the user wants, as orders; sentences with numbers, addresses or links are left out."""
    found = []
    for sentence in _END.split(outcome):
        if _PRIVATE.search(sentence):
            continue
        for pattern, order in _WISHES:
            match = re.search(pattern, sentence, re.IGNORECASE)
            if match:
                found.append(f"{order} {shorten(match[1], LONGEST_CLAUSE, placeholder='')}".rstrip(" ,"))
                break
    return found


def _stand_ins(trajectory: Trajectory) -> list[tuple[str, str]]:
    """(tool that failed, tool that worked right after it)"""
    steps = [step for step in trajectory.steps if step.tool]
    pairs = [
        (before.tool, after.tool)
        for before, after in pairwise(steps)
        if not before.worked and after.worked and before.tool != after.tool
    ]
    return list(dict.fromkeys(pairs))


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
