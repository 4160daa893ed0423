"""Learns from trajectories: extracts skills from good ones, and counts the uses of skills in all of them.

A trajectory counts once. Its id is looked up and its effects are written in one transaction, after taking over what
others have written so far, so two processes that learn at once create no duplicates.

A trajectory with a reward of at least `learn_from` is worth learning from. An extractor drafts skills from it. A draft
that is nearly the same as one of the user's skills is merged into it, and the others are added. Skills that occur
together in enough such trajectories complement each other. A new skill conflicts with skills of its scenarios that it
contradicts. Every trajectory counts towards the utility of the skills it used.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from agentfw_memory.errors import BadInputError
from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.contradiction import contradict
from agentfw_memory.graph.editing import Editor
from agentfw_memory.graph.extraction import Extractor, SkillDraft, Step, Trajectory
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.pruning import prune
from agentfw_memory.graph.recall import Recaller
from agentfw_memory.graph.records import Learned, NewSkill, skill_number
from agentfw_memory.graph.stores.interface import Change, EdgeRow, Store, TrajectoryRow
from agentfw_memory.graph.validation import check_name, check_names, check_number, check_text

__all__ = ["Learner", "as_trajectory"]

COMPARED = 50
"""Maximum number of skills that a new skill is checked against: the most similar ones of its scenarios."""


class Learner:
    """Learns for one tenant."""

    def __init__(
        self, store: Store, recaller: Recaller, editor: Editor, settings: GraphSettings, extractor: Extractor
    ) -> None:
        self._store, self._recaller, self._editor = store, recaller, editor
        self._settings, self._extractor = settings, extractor

    def learn(self, given: Trajectory | Mapping[str, Any], reward: float) -> Learned:
        trajectory = self._checked(as_trajectory(given))
        worth = check_number("reward", reward)
        if not self._settings.evolve:
            return Learned(trajectory.id)
        if self._store.find("trajectory", trajectory.id) is not None:
            return Learned(trajectory.id, known_already=True)
        drafts = self._drafts(trajectory) if worth >= self._settings.learn_from else []
        self._recaller.catch_up()  # the slow part, before the write lock is taken
        vectors = self._recaller.embed([draft.text for draft in drafts]) if drafts else np.zeros((0, 1), np.float32)
        with self._store.writing() as change:
            if self._store.find("trajectory", trajectory.id) is not None:
                return Learned(trajectory.id, known_already=True)
            self._recaller.catch_up(change.number - 1)
            return self._write(change, trajectory, worth, drafts, vectors)

    # Helpers

    def _write(
        self, change: Change, trajectory: Trajectory, reward: float, drafts: list[NewSkill], vectors: Float32Array
    ) -> Learned:
        store, settings = self._store, self._settings
        user = store.nodes(change, "user", [trajectory.user])[trajectory.user]
        own = store.add_trajectory(
            change, TrajectoryRow(trajectory.id, user, trajectory.query, trajectory.outcome, reward)
        )
        used = self._used(trajectory, user)
        fresh, merged = self._place(change, user, drafts, vectors)
        added = list(fresh)
        touched = list(dict.fromkeys([*used, *merged, *added]))
        store.add_edges(change, [EdgeRow("EXECUTED", own, skill, reward) for skill in touched])
        for skill in touched:
            store.count_use(change, skill, 1, reward)
        complements: list[tuple[int, int]] = []
        conflicts: list[tuple[int, int]] = []
        retired: list[int] = []
        if reward >= settings.learn_from:
            scenarios = store.nodes(change, "scenario", trajectory.scenarios)
            triggers = [EdgeRow("TRIGGERS", scenario, skill) for scenario in scenarios.values() for skill in touched]
            store.add_edges(change, triggers)
            complements = self._complement(change, touched)
            if settings.find_conflicts:
                conflicts = self._contradict(change, user, fresh, list(scenarios.values()))
            retired = self._enforce_maximum(change, user, keep=set(touched))
        return Learned(
            trajectory.id,
            added=_ids(added),
            merged=_ids(merged),
            retired=_ids(retired),
            complements=tuple((f"s{one}", f"s{other}") for one, other in complements),
            conflicts=tuple((f"s{one}", f"s{other}") for one, other in conflicts),
        )

    def _checked(self, trajectory: Trajectory) -> Trajectory:
        check_name("trajectory", trajectory.id)
        check_name("user", trajectory.user)
        for what, text in (("query", trajectory.query), ("outcome", trajectory.outcome)):
            if text:
                check_text(what, text, self._settings.longest_text)
        check_names("skill", trajectory.skills)
        return replace(trajectory, scenarios=check_names("scenario", trajectory.scenarios))

    def _drafts(self, trajectory: Trajectory) -> list[NewSkill]:
        """Return the extractor's drafts, checked like any input, because the extractor may be a model."""
        longest = self._settings.longest_text
        drafts: Sequence[SkillDraft] = self._extractor(trajectory, self._settings.new_skills)
        return [
            NewSkill(
                trajectory.user,
                check_text("drafted skill", draft.text, longest),
                check_names("tool", draft.tools),
                check_names("scenario", draft.scenarios),
            )
            for draft in drafts[: self._settings.new_skills]
        ]

    def _used(self, trajectory: Trajectory, user: int) -> list[int]:
        """Return the used skills that still exist and that the user may see."""
        numbers = [found for found in map(skill_number, trajectory.skills) if found is not None]
        seen = self._store.skills(numbers, user)
        return [one for one in dict.fromkeys(numbers) if one in seen]

    def _place(
        self, change: Change, user: int, drafts: list[NewSkill], vectors: Float32Array
    ) -> tuple[dict[int, Float32Array], list[int]]:
        """Write the drafts. Return the added skills with their vectors, and the skills that drafts were merged into."""
        cache, editor = self._recaller.cache, self._editor
        members = np.fromiter(sorted(cache.owned.get(user, ())), np.int64)
        added: dict[int, Float32Array] = {}
        merged: list[int] = []
        for draft, vector in zip(drafts, vectors, strict=True):
            likely, similarity = cache.index.among(vector, 1, members) if len(members) else (members, np.zeros(0))
            among = np.array([vector @ row for row in added.values()])
            if len(likely) and similarity[0] > self._settings.merge_above:
                existing = int(likely[0])
            elif len(among) and among.max() > self._settings.merge_above:
                existing = list(added)[int(among.argmax())]
            else:
                skill = skill_number(editor.write(change, [draft], vector[np.newaxis])[0].id) or 0
                if skill in cache.owned.get(user, ()) or skill in added:
                    existing = skill
                else:
                    added[skill] = vector
                    continue
            self._broaden(change, existing, draft)
            if existing not in added:
                merged.append(existing)
        return added, list(dict.fromkeys(merged))

    def _broaden(self, change: Change, skill: int, draft: NewSkill) -> None:
        """Add a draft's tools and scenarios to the skill it was merged into."""
        tools = self._store.nodes(change, "tool", draft.tools).values()
        scenarios = self._store.nodes(change, "scenario", draft.scenarios).values()
        edges = [EdgeRow("REQUIRES", skill, tool) for tool in tools]
        edges += [EdgeRow("APPLIES_TO", skill, scenario) for scenario in scenarios]
        self._store.add_edges(change, edges)

    def _complement(self, change: Change, skills: list[int]) -> list[tuple[int, int]]:
        needed = self._settings.complement_after
        if not needed or len(skills) < 2:
            return []
        counts = self._store.co_uses(skills, self._settings.learn_from)
        pairs = [pair for pair, count in counts.items() if count >= needed]
        return self._relate(change, "COMPLEMENTS", pairs)

    def _contradict(
        self, change: Change, user: int, added: Mapping[int, Float32Array], scenarios: list[int]
    ) -> list[tuple[int, int]]:
        """Check new skills against those of the same scenarios, and against each other."""
        store, cache = self._store, self._recaller.cache
        others = {skill for scenario in scenarios for skill in store.skills_of(scenario)} - set(added)
        known = np.array(sorted(skill for skill in others if skill < len(cache.live) and cache.live[skill]), np.int64)
        known = known[cache.visible_to(user, known)]
        texts = store.texts(list(added))
        pairs = [pair for pair in itertools.combinations(added, 2) if contradict(texts[pair[0]], texts[pair[1]])]
        for skill, vector in added.items():
            if len(known):
                near, _ = cache.index.among(vector, COMPARED, known)
                against = store.texts(near.tolist())
                pairs += [(other, skill) for other, text in against.items() if contradict(texts[skill], text)]
        return self._relate(change, "CONFLICTS", pairs)

    def _relate(self, change: Change, kind: str, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Add edges and return the pairs that are new."""
        new = []
        for one, other in sorted((min(pair), max(pair)) for pair in pairs):
            edge = EdgeRow("COMPLEMENTS" if kind == "COMPLEMENTS" else "CONFLICTS", one, other)
            if self._store.add_edges(change, [edge]):
                new.append((one, other))
                self._store.touch(change, (one, other))
        return new

    def _enforce_maximum(self, change: Change, user: int, keep: set[int]) -> list[int]:
        """Merge and retire skills until the user has no more than the maximum. Skills of this trajectory stay."""
        cache = self._recaller.cache
        old = np.array(sorted(cache.owned.get(user, set()) - keep), np.int64)
        mine = len(cache.owned.get(user, set()) | (keep & self._owned(user, keep)))
        over = mine - self._settings.skills_per_owner
        if over <= 0 or not len(old):
            return []
        cut = prune(
            cache.vectors(old),
            (cache.rewards[old] / np.maximum(cache.uses[old], 1)).tolist(),
            cache.uses[old].tolist(),
            maximum=max(0, len(old) - over),
            merge_above=self._settings.merge_above,
        )
        for stays, goes in cut.merged:
            self._editor.merge(change, int(old[stays]), int(old[goes]))
        retired = [int(old[place]) for place in cut.retired]
        self._store.end_skills(change, retired)
        return sorted([*(int(old[goes]) for _, goes in cut.merged), *retired])

    def _owned(self, user: int, skills: set[int]) -> set[int]:
        """Return which of these skills belong to the user."""
        return {
            edge.target
            for skill in skills
            for edge in self._store.edge_rows(skill)
            if edge.kind == "OWNS" and edge.source == user
        }


def as_trajectory(given: Trajectory | Mapping[str, Any]) -> Trajectory:
    """Return a trajectory from one, or from a mapping such as JSON gives.

    >>> as_trajectory({"id": "t1", "user": "ana", "query": "hello", "steps": [{"action": "greet"}]}).steps[0].action
    'greet'
    """
    if isinstance(given, Trajectory):
        return given
    try:
        values: dict[str, Any] = {"steps": (), "scenarios": (), "skills": (), **given}
        values["steps"] = tuple(Step(**step) for step in values["steps"])
        for name in ("scenarios", "skills"):
            # A string stays a string, so that the check can reject it.
            values[name] = values[name] if isinstance(values[name], str) else tuple(values[name])
        return Trajectory(**values)
    except (TypeError, ValueError) as error:
        known = ", ".join(field.name for field in fields(Trajectory))
        raise BadInputError(
            f"not a trajectory: {error}", fix=f"pass {known}; a step has action, tool and worked"
        ) from None


def _ids(numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"s{one}" for one in numbers)
