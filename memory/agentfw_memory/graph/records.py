"""The plain values that a skill graph takes and returns.

Times are seconds since 1970 (UTC). `valid_from` and `valid_to` say when something held, and `recorded_at` when the
graph was told. `valid_to` is None as long as it holds.

    >>> Skill("s1", "ana", "Offer the earliest slot first", tools=("calendar",)).utility
    0.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "EDGE_ENDS",
    "Edge",
    "EdgeKind",
    "Hit",
    "Learned",
    "NewSkill",
    "NodeKind",
    "Receipt",
    "Skill",
    "SkillHistory",
    "SkillVersion",
    "Stats",
    "Visibility",
    "Why",
    "skill_number",
]

Visibility = Literal["private", "shared"]
"""Who may see a skill: only its owner, or every user of the tenant."""
NodeKind = Literal["user", "skill", "tool", "scenario", "trajectory"]
EdgeKind = Literal["OWNS", "REQUIRES", "APPLIES_TO", "TRIGGERS", "COMPLEMENTS", "CONFLICTS", "EXECUTED"]

EDGE_ENDS: Mapping[EdgeKind, tuple[NodeKind, NodeKind]] = {
    "OWNS": ("user", "skill"),
    "REQUIRES": ("skill", "tool"),
    "APPLIES_TO": ("skill", "scenario"),
    "TRIGGERS": ("scenario", "skill"),
    "COMPLEMENTS": ("skill", "skill"),
    "CONFLICTS": ("skill", "skill"),
    "EXECUTED": ("trajectory", "skill"),
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


@dataclass(frozen=True, slots=True)
class SkillVersion:
    """What a skill said during one period."""

    text: str
    visibility: Visibility
    valid_from: float
    valid_to: float | None
    recorded_at: float


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
    time: float
    """1 if the skill became true at a time which the query names."""
    complement: float
    conflict: float
    path: str
    points: Mapping[str, float] = field(default_factory=dict)
    """What each part adds to the score. Their sum is the score."""

    def __str__(self) -> str:
        shown = [f"{name} {value:+.2f}" for name, value in self.points.items() if round(value, 2)]
        return f"{', '.join(shown) or 'nothing speaks for it'}; {self.path}"


@dataclass(frozen=True, slots=True)
class Hit:
    """A recalled skill with its score and the reasons for it."""

    score: float
    skill: Skill
    why: Why


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
    conflicts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What `forget` deleted."""

    user: str
    skills: int = 0
    versions: int = 0
    """Versions of these skills, current ones included."""
    vectors: int = 0
    edges: int = 0
    trajectories: int = 0
    nodes: int = 0
    """The user, and tools and scenarios that nobody else uses."""
    communities: int = 0
    """Saved states of the communities. They are computed again without this user."""
    word_index: int = 0
    """Saved pieces of the word index. It is built again without this user."""
    index_files: int = 0


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


def skill_number(skill: str) -> int | None:
    """Return the number in a skill's id, or None if it isn't an id.

    >>> skill_number("s17"), skill_number("17"), skill_number("s01")
    (17, None, None)
    """
    digits = skill[1:]
    plain = skill[:1] == "s" and digits.isascii() and digits.isdigit() and len(digits) < 19
    return int(digits) if plain and str(int(digits)) == digits else None
