"""The plain values that a skill graph takes and returns, and the types of its arrays.

Times are seconds since 1970 (UTC). `valid_from` and `valid_to` say when something held, and `recorded_at` when the
graph was told. `valid_to` is None as long as it holds.

    >>> Skill("s1", "ana", "Offer the earliest slot first", tools=("calendar",)).utility
    0.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Float32Array = NDArray[np.float32]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Visibility = Literal["private", "shared"]  # who may see a skill: only its owner, or every user of the tenant
NodeKind = Literal["user", "skill", "tool", "scenario", "trajectory", "fact", "conversation", "saying", "case"]
EdgeKind = Literal[
    "OWNS",
    "REQUIRES",
    "APPLIES_TO",
    "TRIGGERS",
    "COMPLEMENTS",
    "CONFLICTS",
    "EXECUTED",
    "STATES",
    "SAID_IN",
    "SAID_AS",
    "SHOWN",
]

EDGE_ENDS: Mapping[EdgeKind, tuple[NodeKind, NodeKind]] = {
    "OWNS": ("user", "skill"),
    "REQUIRES": ("skill", "tool"),
    "APPLIES_TO": ("skill", "scenario"),
    "TRIGGERS": ("scenario", "skill"),
    "COMPLEMENTS": ("skill", "skill"),
    "CONFLICTS": ("skill", "skill"),
    "EXECUTED": ("trajectory", "skill"),
    "STATES": ("skill", "fact"),
    "SAID_IN": ("skill", "conversation"),
    "SAID_AS": ("skill", "saying"),
    "SHOWN": ("trajectory", "skill"),
}
"""The kinds of node that an edge starts and ends at. COMPLEMENTS and CONFLICTS apply in both directions."""


@dataclass(frozen=True, slots=True)
class NewSkill:
    """A skill to add."""

    owner: str
    text: str
    tools: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    visibility: Visibility = "private"
    valid_from: float | None = None
    """Since when the skill holds. Default: now."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON values of the caller's own, to filter by. A text with other metadata is another skill."""
    expires_at: float | None = None
    """When it ends by itself. Default: never."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as it is now."""

    id: str
    owner: str
    text: str
    tools: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    visibility: Visibility = "private"
    uses: int = 0
    """Number of trajectories that used it."""
    utility: float = 0.0
    """Mean reward of these trajectories, or 0 without any."""
    valid_from: float = 0.0
    recorded_at: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    expires_at: float | None = None
    valid_to: float | None = None
    """Until when it held, where it was asked for as of an earlier time."""
    fact: str = ""
    """What it is about, which it shares with older and newer skills about the same thing."""
    conversation: str = ""
    """The conversation in which it was said."""
    corrections: int = 0
    """Number of earlier versions that it supersedes."""

    @property
    def dates(self) -> str:
        """Since when it holds, or from when to when it held, and how often it was corrected."""
        since = day(self.valid_from)
        span = f"{since} to {day(self.valid_to)}; no longer true" if self.valid_to else f"since {since}"
        times = {0: "", 1: "; corrected once"}.get(self.corrections, f"; corrected {self.corrections} times")
        return span + times

    @property
    def told(self) -> str:
        """The text with its dates, as an agent should read it."""
        return f"{self.text} ({self.dates})"


@dataclass(frozen=True, slots=True)
class SkillVersion:
    """What a skill said during one period."""

    text: str
    visibility: Visibility
    valid_from: float
    valid_to: float | None
    recorded_at: float
    metadata: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0
    """Its number among the versions of its skill, from 0. Deleting another version doesn't change it."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A typed edge. Its ends are named like `user:ana`, `skill:s1` or `tool:calendar`."""

    kind: EdgeKind
    source: str
    target: str
    weight: float
    valid_from: float
    valid_to: float | None
    recorded_at: float


@dataclass(frozen=True, slots=True)
class SkillHistory:
    """Every version and edge of a skill, oldest first."""

    versions: tuple[SkillVersion, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Why:
    """Why a skill was recalled: the unweighted terms, what each adds to the score, and how the skill was found."""

    query: float
    """Similarity of query and skill."""
    user: float
    community: float
    neighbours: float
    """Sum of the query's similarity to the skills just before and after, where above average."""
    complement: float
    conflict: float
    path: str
    points: Mapping[str, float] = field(default_factory=dict)
    """What each part adds to the score. Their sum is the score."""
    owner: float = 0.0
    """1 if the query names the skill's owner."""
    context: float = 0.0
    """The share of the named scenario and tools that the skill is connected to."""
    rating: float = 0.0
    """What the user thought of answers to such questions for which the skill was shown, from -1 to 1."""

    def __str__(self) -> str:
        shown = [f"{name} {value:+.2f}" for name, value in self.points.items() if round(value, 2)]
        return f"{', '.join(shown) or 'nothing speaks for it'}; {self.path}"


@dataclass(frozen=True, slots=True)
class Hit:
    """A recalled skill with its score and the reasons for it."""

    score: float
    skill: Skill
    why: Why
    relevance: float = 1.0
    """How likely the skill answers the query: from 0 to 1."""
    newer: str = ""
    """The skill that says something newer about the same thing, if one does. Then this one may no longer hold."""


class Use(NamedTuple):
    """A skill that a trajectory used, with its reward, and what the graph thought of them before."""

    trajectory: int
    user: int
    skill: int
    reward: float
    user_term: float | None = None
    community_term: float | None = None


@dataclass(frozen=True, slots=True)
class Learned:
    """What `learn` did with a trajectory."""

    trajectory: str
    known_already: bool = False
    """Whether it had been learned before. Then nothing was changed."""
    added: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    """Existing skills that already said what was learned."""
    updated: tuple[str, ...] = ()
    """Existing wishes that became a newer version, because the user said something else now."""
    retired: tuple[str, ...] = ()
    """Skills that ended: older wishes that a new one contradicts, and those beyond the maximum."""
    shared: tuple[str, ...] = ()
    """Shared copies that were made, because enough users have the same skill."""
    complements: tuple[tuple[str, str], ...] = ()
    cases: tuple[str, ...] = ()
    """Requests that were kept with their answers."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What `hear` did with a message."""

    saying: str
    known_already: bool = False
    """Whether it had been heard before. Then nothing was changed."""
    kept: tuple[str, ...] = ()
    """Skills that say what was said, new ones and those that became a newer version."""
    problem: str = ""
    """What was wrong with the writer's answer, if it wasn't used as it is."""
    to_forget: tuple[str, ...] = ()
    """Skills that the user asked to forget. Nothing is deleted before `delete` is called with them."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What `forget` or `delete` deleted."""

    user: str
    """Who was forgotten, or nobody."""
    skills: int = 0
    versions: int = 0
    """Versions of these skills, current ones included."""
    vectors: int = 0
    edges: int = 0
    trajectories: int = 0
    """Trajectories that were deleted, or whose texts were emptied because they told an erased skill."""
    nodes: int = 0
    """The user, and tools and scenarios that nobody else uses."""
    communities: int = 0
    """Saved states of the communities. They are computed again without this user."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of a tenant, and the embedder of its vectors."""

    tenant: str
    nodes: Mapping[str, int] = field(default_factory=dict)
    edges: Mapping[str, int] = field(default_factory=dict)
    shared: int = 0
    past_versions: int = 0
    communities: tuple[int, ...] = ()
    """Number of communities per level, from the coarsest. Empty before the first pass."""
    embedder: str = ""
    embedder_version: str = ""
    dimensions: int = 0
    bytes_on_disk: int = 0


def day(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).date().isoformat()


def skill_number(skill: str) -> int | None:
    """Return the number in a skill's id, or None if it isn't an id.

    >>> skill_number("s17"), skill_number("17"), skill_number("s01")
    (17, None, None)
    """
    digits = skill[1:]
    plain = skill[:1] == "s" and digits.isascii() and digits.isdigit() and len(digits) < 19
    return int(digits) if plain and str(int(digits)) == digits else None
