"""Learning from trajectories: what a good one taught becomes skills, and what was used is counted.

The one rule: a trajectory counts once. Its id is looked up and its consequences are written in one transaction,
together with a look at what others have written until then, so that two processes that learn at once make no two of
anything.

A trajectory of at least `learn_from` is consolidated: an extractor drafts skills from it; a draft that is nearly a
skill of that user becomes that skill, the others are new. Skills that were used together in such trajectories often
enough complement each other; a new skill conflicts with those of its scenarios that it contradicts. Every trajectory,
good or not, counts towards the utility of the skills that it used.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from agentfw_memory.errors import BadInputError
from agentfw_memory.graph.contradiction import contradict
from agentfw_memory.graph.editing import Keeper
from agentfw_memory.graph.extraction import Extractor, SkillDraft, Step, Trajectory, trim
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.recall import Recaller
from agentfw_memory.graph.records import Learned, NewSkill
from agentfw_memory.graph.stores.interface import Change, EdgeRow, Float32Array, Store, TrajectoryRow, number_of
from agentfw_memory.graph.validation import name_of, names_of, number, text_of

__all__ = ["Learner", "as_trajectory"]

COMPARED = 50
"""A new skill is compared with so many others of its scenario: those most like it, which speak of the same thing."""


class Learner:
    """Learns for one tenant."""

    def __init__(
        self, store: Store, recaller: Recaller, keeper: Keeper, settings: GraphSettings, extractor: Extractor
    ) -> None:
        self._store, self._recaller, self._keeper = store, recaller, keeper
        self._settings, self._extractor = settings, extractor

    def learn(self, given: Trajectory | Mapping[str, Any], reward: float) -> Learned:
        trajectory = self._checked(as_trajectory(given))
        worth = number("reward", reward)
        if not self._settings.evolve:
            return Learned(trajectory.id)
        if self._store.find("trajectory", trajectory.id) is not None:
            return Learned(trajectory.id, known_already=True)
        drafts = self._drafts(trajectory) if worth >= self._settings.learn_from else []
        self._recaller.catch_up()  # what takes long is done before anybody has to wait for it
        vectors = self._recaller.embed([draft.text for draft in drafts]) if drafts else np.zeros((0, 1), np.float32)
        with self._store.writing() as change:
            if self._store.find("trajectory", trajectory.id) is not None:
                return Learned(trajectory.id, known_already=True)
            self._recaller.catch_up(change.number - 1)
            return self._write(change, trajectory, worth, drafts, vectors)

    # Within

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
            retired = self._hold_cap(change, user, keep=set(touched))
        return Learned(
            trajectory.id,
            added=_ids(added),
            merged=_ids(merged),
            retired=_ids(retired),
            complements=tuple((f"s{one}", f"s{other}") for one, other in complements),
            conflicts=tuple((f"s{one}", f"s{other}") for one, other in conflicts),
        )

    def _checked(self, trajectory: Trajectory) -> Trajectory:
        name_of("trajectory", trajectory.id)
        name_of("user", trajectory.user)
        for what, text in (("query", trajectory.query), ("outcome", trajectory.outcome)):
            if text:
                text_of(what, text, self._settings.longest_text)
        names_of("skill", trajectory.skills)
        return replace(trajectory, scenarios=names_of("scenario", trajectory.scenarios))

    def _drafts(self, trajectory: Trajectory) -> list[NewSkill]:
        """What the extractor found, checked like any other skill: it may be anybody's, or a model's."""
        longest = self._settings.longest_text
        drafts: Sequence[SkillDraft] = self._extractor(trajectory, self._settings.new_skills)
        return [
            NewSkill(
                trajectory.user,
                text_of("drafted skill", draft.text, longest),
                names_of("tool", draft.tools),
                names_of("scenario", draft.scenarios),
            )
            for draft in drafts[: self._settings.new_skills]
        ]

    def _used(self, trajectory: Trajectory, user: int) -> list[int]:
        """The skills that were used, as far as they are still there and the user may see them."""
        numbers = [found for found in map(number_of, trajectory.skills) if found is not None]
        seen = self._store.skills(numbers, user)
        return [one for one in dict.fromkeys(numbers) if one in seen]

    def _place(
        self, change: Change, user: int, drafts: list[NewSkill], vectors: Float32Array
    ) -> tuple[dict[int, Float32Array], list[int]]:
        """Write the drafts: the skills that are new, with their vectors, and those that were nearly there already."""
        view, keeper = self._recaller.view, self._keeper
        members = np.fromiter(sorted(view.members.get(user, ())), np.int64)
        added: dict[int, Float32Array] = {}
        merged: list[int] = []
        for draft, vector in zip(drafts, vectors, strict=True):
            likely, likeness = view.shelves.among(vector, 1, members) if len(members) else (members, np.zeros(0))
            among = np.array([vector @ row for row in added.values()])
            if len(likely) and likeness[0] > self._settings.merge_above:
                stands = int(likely[0])
            elif len(among) and among.max() > self._settings.merge_above:
                stands = list(added)[int(among.argmax())]
            else:
                skill = number_of(keeper.write(change, [draft], vector[np.newaxis])[0].id) or 0
                if skill in view.members.get(user, ()) or skill in added:
                    stands = skill
                else:
                    added[skill] = vector
                    continue
            self._broaden(change, stands, draft)
            if stands not in added:
                merged.append(stands)
        return added, list(dict.fromkeys(merged))

    def _broaden(self, change: Change, skill: int, draft: NewSkill) -> None:
        """Let a skill that stands for a draft have its tools and scenarios too."""
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
        """Compare new skills with those of the same scenarios, and with each other."""
        store, view = self._store, self._recaller.view
        others = {skill for scenario in scenarios for skill in store.skills_of(scenario)} - set(added)
        known = np.array(sorted(skill for skill in others if skill < len(view.live) and view.live[skill]), np.int64)
        known = known[view.seen_by(user, known)]
        texts = store.texts(list(added))
        pairs = [pair for pair in itertools.combinations(added, 2) if contradict(texts[pair[0]], texts[pair[1]])]
        for skill, vector in added.items():
            if len(known):
                near, _ = view.shelves.among(vector, COMPARED, known)
                against = store.texts(near.tolist())
                pairs += [(other, skill) for other, text in against.items() if contradict(texts[skill], text)]
        return self._relate(change, "CONFLICTS", pairs)

    def _relate(self, change: Change, kind: str, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Draw these edges; those that are new."""
        new = []
        for one, other in sorted((min(pair), max(pair)) for pair in pairs):
            edge = EdgeRow("COMPLEMENTS" if kind == "COMPLEMENTS" else "CONFLICTS", one, other)
            if self._store.add_edges(change, [edge]):
                new.append((one, other))
                self._store.touch(change, (one, other))
        return new

    def _hold_cap(self, change: Change, user: int, keep: set[int]) -> list[int]:
        """Merge and retire until the user has no more than the cap; what this trajectory used stays."""
        view = self._recaller.view
        old = np.array(sorted(view.members.get(user, set()) - keep), np.int64)
        mine = len(view.members.get(user, set()) | (keep & self._owned(user, keep)))
        over = mine - self._settings.skills_per_owner
        if over <= 0 or not len(old):
            return []
        cut = trim(
            view.vectors(old),
            (view.rewards[old] / np.maximum(view.uses[old], 1)).tolist(),
            view.uses[old].tolist(),
            cap=max(0, len(old) - over),
            merge_above=self._settings.merge_above,
        )
        for stays, goes in cut.merged:
            self._keeper.merge(change, int(old[stays]), int(old[goes]))
        retired = [int(old[place]) for place in cut.retired]
        self._store.end_skills(change, retired)
        return sorted([*(int(old[goes]) for _, goes in cut.merged), *retired])

    def _owned(self, user: int, skills: set[int]) -> set[int]:
        """Which of these are the user's."""
        return {
            edge.target
            for skill in skills
            for edge in self._store.edge_rows(skill)
            if edge.kind == "OWNS" and edge.source == user
        }


def as_trajectory(given: Trajectory | Mapping[str, Any]) -> Trajectory:
    """A trajectory, also from plain values such as JSON has.

    >>> as_trajectory({"id": "t1", "user": "ana", "query": "hello", "steps": [{"action": "greet"}]}).steps[0].action
    'greet'
    """
    if isinstance(given, Trajectory):
        return given
    try:
        values: dict[str, Any] = {"steps": (), "scenarios": (), "skills": (), **given}
        values["steps"] = tuple(Step(**step) for step in values["steps"])
        for name in ("scenarios", "skills"):
            # A text stays one, so that the check can say that it isn't a list.
            values[name] = values[name] if isinstance(values[name], str) else tuple(values[name])
        return Trajectory(**values)
    except (TypeError, ValueError) as error:
        known = ", ".join(field.name for field in fields(Trajectory))
        raise BadInputError(
            f"this is no trajectory: {error}", fix=f"it has {known}; a step has action, tool, worked"
        ) from None


def _ids(numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"s{one}" for one in numbers)
