"""What a skill graph holds and tells, as plain values.

The one rule: times are seconds since 1970 (UTC). `valid_from` and `valid_to` say when something was so, `recorded_at`
when the graph was told; `valid_to` is None while it is still so.

    >>> Skill("s1", "ana", "Offer the earliest slot first", tools=("calendar",)).utility
    0.0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agentfw_memory.graph.graph_settings import Visibility

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
    "Why",
]

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
"""From what kind of node to what kind of node an edge goes. COMPLEMENTS and CONFLICTS hold both ways."""


@dataclass(frozen=True, slots=True)
class NewSkill:
    """A skill to be added."""

    owner: str
    text: str
    tools: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    visibility: Visibility = "private"
    valid_from: float | None = None
    """When it began to be so; None is now."""


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
    """In how many trajectories it was used."""
    utility: float = 0.0
    """The mean reward of these trajectories; 0 without any."""
    valid_from: float = 0.0
    recorded_at: float = 0.0


@dataclass(frozen=True, slots=True)
class SkillVersion:
    """What a skill said from one moment to another."""

    text: str
    visibility: Visibility
    valid_from: float
    valid_to: float | None
    recorded_at: float


@dataclass(frozen=True, slots=True)
class Edge:
    """A typed edge; its ends are named like `user:ana`, `skill:s1`, `tool:calendar`."""

    kind: EdgeKind
    source: str
    target: str
    weight: float
    valid_from: float
    valid_to: float | None
    recorded_at: float


@dataclass(frozen=True, slots=True)
class SkillHistory:
    """All that was ever recorded of a skill, the earliest first."""

    versions: tuple[SkillVersion, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Why:
    """The terms of a score before they are weighted, and the path that found the skill."""

    query: float
    user: float
    community: float
    complement: float
    conflict: float
    path: str

    def __str__(self) -> str:
        terms = f"query {self.query:.2f}, user {self.user:.2f}, community {self.community:.2f}"
        extras = ", complements a candidate" * (self.complement > 0) + ", conflicts with one" * (self.conflict > 0)
        return f"{terms}{extras}; {self.path}"


@dataclass(frozen=True, slots=True)
class Hit:
    """A recalled skill, its score, and why it has it."""

    score: float
    skill: Skill
    why: Why


@dataclass(frozen=True, slots=True)
class Learned:
    """What came of a trajectory."""

    trajectory: str
    known_already: bool = False
    """It had been learned before; nothing was changed."""
    added: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    """Skills that were there already and stand for what was learned."""
    retired: tuple[str, ...] = ()
    complements: tuple[tuple[str, str], ...] = ()
    conflicts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What `forget` took out."""

    user: str
    skills: int = 0
    versions: int = 0
    """Of these skills, the present ones included."""
    vectors: int = 0
    edges: int = 0
    trajectories: int = 0
    nodes: int = 0
    """The user, and tools and scenarios that nobody else has."""
    communities: int = 0
    """Stored passes over the communities; they are made anew, without this person."""
    index_files: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """How much a tenant has, and how it was embedded."""

    tenant: str
    nodes: Mapping[str, int] = field(default_factory=dict)
    edges: Mapping[str, int] = field(default_factory=dict)
    shared: int = 0
    past_versions: int = 0
    communities: tuple[int, ...] = ()
    """How many on each level, from the widest; empty before the first pass."""
    embedder: str = ""
    embedder_version: str = ""
    dimensions: int = 0
    bytes_on_disk: int = 0
