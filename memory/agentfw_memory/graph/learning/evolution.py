"""Places what a trajectory taught among the skills that its user already has.

A skill that says the same as an existing one is merged into it: their vectors are similar, and so is their meaning word
by word. Similar vectors alone are not enough, because opposites have similar vectors too.

What a user said last counts (`newest_wins`). A wish that rewords an existing one, or says the opposite in nearly the
same words, becomes its newest version. Nothing is overwritten: the earlier versions stay in the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.learning.editing import Editor
from agentfw_memory.graph.learning.extraction import SkillDraft
from agentfw_memory.graph.recall.recall import Recaller
from agentfw_memory.graph.records import NewSkill, Visibility, skill_number
from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.graph.stores.store import Change
from agentfw_memory.graph.text.words import meaning


@dataclass(slots=True)
class Placed:
    """What became of the drafts of one trajectory."""

    added: dict[int, Float32Array] = field(default_factory=dict)
    """New skills, with their vectors."""
    merged: list[int] = field(default_factory=list)
    """Existing skills that said the same."""
    updated: dict[int, Float32Array] = field(default_factory=dict)
    """Existing wishes that got a newest version, with their vectors."""
    ended: list[int] = field(default_factory=list)
    """Wishes in place of which another one got a newest version."""
    unsaid: list[str] = field(default_factory=list)
    """Texts that no longer hold, because their wish was updated or ended."""
    wishes: set[int] = field(default_factory=set)
    """Those of the skills above that are wishes of this trajectory."""


class Placing:
    """Places the drafts of trajectories, for one tenant."""

    def __init__(self, rows: GraphRows, recaller: Recaller, editor: Editor, settings: GraphSettings) -> None:
        self._rows, self._recaller, self._editor, self._settings = rows, recaller, editor, settings

    def place(self, change: Change, owner: str, drafts: Sequence[SkillDraft], vectors: Float32Array) -> Placed:
        """Write the drafts of one trajectory."""
        user = self._rows.nodes(change, "user", [owner])[owner]
        placed = Placed()
        for draft, vector in zip(drafts, vectors, strict=True):
            newest_wins = draft.wish and self._settings.newest_wins
            alike = self._most_similar(user, vector, placed)
            if alike is None:
                skill = self._add(change, user, owner, draft, vector, placed)
            elif meaning(self._rows.texts([alike])[alike]) == meaning(draft.text):
                skill = self._merge(change, alike, draft, placed)
            elif newest_wins and alike not in placed.added and alike not in placed.updated:
                skill = self._update(change, user, alike, draft, vector, placed)
            else:
                skill = self._add(change, user, owner, draft, vector, placed)
            if draft.wish:
                placed.wishes.add(skill)
        return placed

    # Helpers

    def _most_similar(self, user: int, vector: Float32Array, placed: Placed) -> int | None:
        """Return the user's skill that is similar enough to be the same, the most similar one."""
        cache = self._recaller.cache
        known = cache.owned.get(user, set()) - set(placed.ended) - set(placed.updated)
        members = np.fromiter(sorted(known), np.int64)
        best: tuple[float, int] | None = None
        if len(members):
            (likely,), (similarity,) = cache.index.among(vector, 1, members)
            best = float(similarity), int(likely)
        for skill, other in (placed.added | placed.updated).items():
            if best is None or float(vector @ other) > best[0]:
                best = float(vector @ other), skill
        if best is None or best[0] <= self._settings.merge_above:
            return None
        return None if "case" in self._rows.metadata([best[1]]).get(best[1], {}) else best[1]

    def _add(
        self, change: Change, user: int, owner: str, draft: SkillDraft, vector: Float32Array, placed: Placed
    ) -> int:
        visibility: Visibility = "shared" if self._settings.share_learned else "private"
        new = NewSkill(owner, draft.text, draft.tools, draft.scenarios, visibility)
        skill = skill_number(self._editor.write(change, [new], vector[np.newaxis])[0].id) or 0
        if skill in placed.added:
            return skill
        if skill in self._recaller.cache.owned.get(user, ()):  # the owner has exactly this text already
            return self._merge(change, skill, draft, placed)
        placed.added[skill] = vector
        return skill

    def _merge(self, change: Change, skill: int, draft: SkillDraft, placed: Placed) -> int:
        """Add a draft's tools and scenarios to the skill that says the same."""
        self._editor.broaden(change, skill, draft.tools, draft.scenarios)
        if skill not in placed.added and skill not in placed.updated and skill not in placed.merged:
            placed.merged.append(skill)
        return skill

    def _update(
        self, change: Change, user: int, skill: int, draft: SkillDraft, vector: Float32Array, placed: Placed
    ) -> int:
        """Make a draft the newest version of a wish."""
        rows = self._rows
        before = rows.skills([skill])[skill]
        twin = rows.twins([(user, draft.text)]).get((user, draft.text))
        if twin is not None:
            rows.end_skills(change, [skill])
            placed.ended.append(skill)
            placed.unsaid.append(before.text)
            return self._merge(change, twin, draft, placed)
        new = NewSkill(before.owner, draft.text, draft.tools, draft.scenarios, before.visibility)
        self._editor.supersede(change, skill, new, vector, max(change.now, before.valid_from))
        placed.updated[skill] = vector
        placed.unsaid.append(before.text)
        return skill
