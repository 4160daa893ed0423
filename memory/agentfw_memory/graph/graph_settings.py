"""The settings of a skill graph: every weight, every threshold, every part that can be turned off.

The one rule: a part of the method is a setting, never a constant, so that each of the paper's ablations is a few
settings: `GraphSettings.ablation("B1")`.

    >>> GraphSettings(candidates=20).siblings
    20
    >>> GraphSettings.ablation("B1").community_weight
    0.0

The parpo-psgm paper's own values of the four weights, of the number of candidates and of the thresholds are lost with
its formulas; these are ours. `user_weight` and `conflicts_with` were chosen by what they are worth on generated people,
of whom those in the docs' figures are none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from agentfw_memory.errors import BadInputError

__all__ = ["GraphSettings", "Visibility"]

Visibility = Literal["private", "shared"]
"""Who may see a skill: its owner alone, or everybody in the tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSettings:
    """How a graph ranks, learns and keeps."""

    query_weight: float = 0.4
    """Weight of the likeness of query and skill."""
    user_weight: float = 0.1
    """Weight of the likeness of user and skill; a user is their profile, or else the mean of their skills."""
    community_weight: float = 0.2
    """Weight of the share of community levels on which user and skill are together."""
    complement_boost: float = 0.1
    """What a skill gains when one that it works well with is among the candidates."""
    conflict_weight: float = 0.1
    """What a skill loses when one that it contradicts is among the candidates."""
    conflicts_with: Literal["candidates", "selected"] = "selected"
    """Whether a conflict counts with any candidate (the formula), or only with what is already chosen (greedy)."""
    query_similarity: Literal["vectors", "words"] = "vectors"
    """Whether candidates are found and compared by their vectors or by their words (BM25)."""
    candidates: int = 10
    """How many skills are taken by likeness alone, before the neighbours of the graph; 0 recalls nothing."""
    siblings: int = 20
    """At most so many other skills of a candidate's owner are looked at too; 0 turns the two-hop expansion off."""

    communities: Literal["leiden", "louvain"] = "leiden"
    """How communities are found."""
    resolutions: tuple[float, ...] = (0.5, 1.0, 2.0)
    """One level of communities each, from the widest to the narrowest."""

    evolve: bool = True
    """Whether `learn` changes the graph at all."""
    learn_from: float = 0.7
    """A trajectory with at least this reward is worth learning from."""
    new_skills: int = 3
    """At most so many new skills a trajectory."""
    merge_above: float = 0.9
    """Two skills of one owner that are more alike than this become one; 1 merges only what is equal."""
    complement_after: int = 2
    """Two skills complement each other once so many trajectories worth learning from used both; 0 never."""
    find_conflicts: bool = True
    """Whether a new skill is compared with those of its scenarios for what contradicts it."""
    skills_per_owner: int = 1000
    """What an owner may have; beyond it `learn` merges what is alike and retires the least useful."""

    exact_up_to: int = 50_000
    """Up to so many skills a tenant is searched through whole; beyond it by lists of neighbours (IVF)."""
    probed: float = 0.125
    """The share of those lists that a search looks into."""
    longest_text: int = 20_000
    """The most characters that a skill, a query or a profile may have."""
    power_safe: bool = False
    """Whether each write waits for the disk. Without it a write survives `kill -9`; the last ones may not survive a
    power cut."""
    seed: int = 7
    """Of everything random: the communities and the lists of neighbours."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise _wrong(field.name, value, "a finite number")
        for name in ("candidates", "siblings", "new_skills", "complement_after", "exact_up_to"):
            if getattr(self, name) < 0:
                raise _wrong(name, getattr(self, name), "zero or more")
        for name in ("skills_per_owner", "longest_text"):
            if getattr(self, name) < 1:
                raise _wrong(name, getattr(self, name), "one or more")
        if not 0 < self.probed <= 1:
            raise _wrong("probed", self.probed, "a share above 0, at most 1")
        if not 0 < self.merge_above <= 1:
            raise _wrong("merge_above", self.merge_above, "a cosine above 0, at most 1")
        if not self.resolutions or min(self.resolutions) <= 0:
            raise _wrong("resolutions", self.resolutions, "one number above 0 or more")

    @classmethod
    def ablation(cls, name: str) -> GraphSettings:
        """The settings of one of the paper's ablations of the memory.

        A1 recalls nothing, A2 is a flat list searched by likeness, B1 has no communities, B2 finds them by Louvain,
        B3 never learns, B4 compares words instead of vectors.
        """
        try:
            return {
                "A1": cls(candidates=0),
                "A2": cls(user_weight=0.0, community_weight=0.0, complement_boost=0.0, conflict_weight=0.0, siblings=0),
                "B1": cls(community_weight=0.0),
                "B2": cls(communities="louvain"),
                "B3": cls(evolve=False),
                "B4": cls(query_similarity="words"),
            }[name]
        except KeyError:
            raise BadInputError(f'no ablation is called "{name}"', fix="known: A1, A2, B1, B2, B3, B4") from None


def _wrong(name: str, value: object, wanted: str) -> BadInputError:
    return BadInputError(f"{name} can't be {value}", fix=f"{name} is {wanted}")
