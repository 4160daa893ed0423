"""Finds what a new text supersedes among what its owner said before.

A statement supersedes the owner's earlier statement of the same fact, unless that says something else, too: nothing is
lost by superseding. An instruction supersedes the owner's earlier
instructions that it contradicts. Both must be seen by the same people and be about a common scenario, or about none.
"""

from __future__ import annotations

import numpy as np

from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.facts.fact import Fact
from agentfw_memory.graph.facts.statements import read_fact, says_more
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.recall.recall import Recaller
from agentfw_memory.graph.records import NewSkill, Skill
from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.graph.text.contradiction import contradict
from agentfw_memory.graph.text.reading import LONGEST_KEPT, read

__all__ = ["Superseding"]

COMPARED = 20
"""Maximum number of an owner's skills that a new one is compared with, the most similar ones."""


class Superseding:
    """What is superseded, for one tenant."""

    def __init__(self, rows: GraphRows, recaller: Recaller, settings: GraphSettings) -> None:
        self._rows, self._recaller, self._settings = rows, recaller, settings

    def fact_of(self, skill: NewSkill) -> Fact | None:
        """Return the fact that a skill states, if it may supersede what was said of it before."""
        return read_fact(skill.text, skill.owner) if self._settings.newest_wins and skill.supersedes else None

    def stated(self, skill: NewSkill, fact: Fact) -> Skill | None:
        """Return what the owner said last of a fact and of nothing else."""
        node = self._rows.find("fact", fact.name)
        numbers = [] if node is None else [edge.source for edge in self._rows.edge_rows(node)]
        same = [known for known in self._rows.skills(numbers).values() if _alike(known, skill)]
        same = [
            known for known in same if (said := read_fact(known.text, known.owner)) and not says_more(known.text, said)
        ]
        return max(same, key=lambda known: known.valid_from, default=None)

    def denied(self, skill: NewSkill, fact: Fact) -> Skill | None:
        """Return what the owner said last of a fact, if a negated statement says that exactly this no longer holds."""
        known = self.stated(skill, fact)
        said = None if known is None else read_fact(known.text, skill.owner)
        return known if said is not None and said.value.casefold() == fact.value.casefold() else None

    def opposes(self, skill: NewSkill) -> bool:
        """Return whether a text can contradict another: it forbids something, or names the end of a scale.

        What states a fact is compared with that fact alone.
        """
        if not self._settings.newest_wins or not skill.supersedes or len(skill.text) > LONGEST_KEPT:
            return False
        meaning = read(skill.text)
        return bool(meaning.asked or meaning.forbidden or meaning.refused) and self.fact_of(skill) is None

    def contradicted(self, skill: NewSkill, vector: Float32Array) -> list[int]:
        """Return the owner's skills that a new one contradicts, most similar first. The cache must be current."""
        owner, cache = self._rows.find("user", skill.owner), self._recaller.cache
        own = sorted(cache.owned.get(owner, ())) if owner is not None else []
        if not own:
            return []
        near, _ = cache.index.among(vector, COMPARED, np.array(own, np.int64))
        # Most of them don't contradict it. A whole skill takes far longer to read than its text.
        texts = self._rows.texts(near.tolist())
        opposed = [one for one in near.tolist() if one in texts and contradict(texts[one], skill.text)]
        return [one for one, other in self._rows.skills(opposed).items() if _alike(other, skill)] if opposed else []


def _alike(known: Skill, skill: NewSkill) -> bool:
    """Return whether two skills have the same owner and readers, and a scenario in common or none at all."""
    same = known.owner == skill.owner and known.visibility == skill.visibility
    return same and (bool({*known.scenarios} & {*skill.scenarios}) or not (known.scenarios or skill.scenarios))
