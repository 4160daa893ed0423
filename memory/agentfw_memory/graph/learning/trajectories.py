"""Learns from trajectories: places drafted skills among those of the user, and counts the uses of skills.

A trajectory counts once: its id is looked up and its effects are written in one transaction, so two processes that
learn at once create no duplicates. Wishes are learned from failures too (`wishes_from`), ways that worked and what
complements each other from good trajectories only (`learn_from`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from ...errors import BadInputError
from ...writing.kinds import kinds_of, own_words
from ...writing.secrets import has_secret
from ..forgetting import Sharing, check_user
from ..recall.recall import ALIKE, CASES, Recaller
from ..records import Float32Array, Learned, NewSkill, Use, Visibility, skill_number
from ..row_types import EdgeRow
from ..stores.store import Change
from ..validation import check_name, check_names, check_number, check_skill, check_text
from ..words import meaning
from .editing import Editor
from .extraction import Extractor, SkillDraft, Step, Trajectory, case_of, extract

LONGEST_DRAFT = 20_000
"""Maximum number of characters of a skill that an extractor writes. A model that writes more has gone astray."""


@dataclass(slots=True)
class Placed:
    """What became of the drafts of one trajectory."""

    added: dict[int, Float32Array] = field(default_factory=dict)  # new skills, with their vectors
    merged: list[int] = field(default_factory=list)  # existing skills that said the same
    updated: dict[int, Float32Array] = field(default_factory=dict)
    """Existing wishes that got a newest version, with their vectors."""
    ended: list[int] = field(default_factory=list)  # wishes in place of which another one got a newest version
    unsaid: list[str] = field(default_factory=list)
    """Texts that no longer hold, because their wish was updated or ended."""
    wishes: set[int] = field(default_factory=set)  # those of the skills above that are wishes of this trajectory


class Learner:
    """Learns for one tenant."""

    def __init__(self, recaller: Recaller, editor: Editor, extractor: Extractor | None) -> None:
        self._recaller, self._rows, self._settings = recaller, recaller.rows, recaller.settings
        self._editor, self._extractor, self._sharing = editor, extractor or self._as_said, Sharing(recaller)

    def learn(self, given: Trajectory | Mapping[str, Any], reward: float) -> Learned:
        trajectory = as_trajectory(given)
        check_name("trajectory", trajectory.id)
        check_user("user", trajectory.user)
        for what in ("query", "outcome", "answer", "corrected"):
            if text := getattr(trajectory, what):
                check_text(what, text, self._settings.longest_text)
        for text in trajectory.kept:
            check_text("skill", text, self._settings.longest_text)
        check_names("skill", trajectory.skills)
        check_names("skill", trajectory.shown)
        trajectory = replace(trajectory, scenarios=check_names("scenario", trajectory.scenarios))
        worth = check_number("reward", reward)
        if not self._settings.evolve:
            return Learned(trajectory.id)
        if self._rows.find("trajectory", trajectory.id) is not None:
            return Learned(trajectory.id, known_already=True)
        drafts = self._drafts(trajectory, worth)
        cases = case_of(trajectory, worth, shared=self._settings.share_learned)
        new = [*cases, *(NewSkill(trajectory.user, text) for text in trajectory.kept)]
        others = self._recaller.embed([one.text for one in new]) if new else np.zeros((0, 1), np.float32)
        vectors = self._recaller.embed([draft.text for draft in drafts]) if drafts else np.zeros((0, 1), np.float32)
        with self._recaller.writing() as change:
            if self._rows.find("trajectory", trajectory.id) is not None:
                return Learned(trajectory.id, known_already=True)
            self._recaller.focus(trajectory.user, trajectory.scenarios, vectors)
            learned = self._write(change, trajectory, worth, drafts, vectors)
            if cases:
                self._rows.nodes(change, "case", [CASES])  # other recalls have to leave them out from now on
            written = [one.id for one in self._editor.write(change, new, others)] if new else []
            return replace(learned, cases=tuple(written[: len(cases)]))

    def _write(
        self, change: Change, trajectory: Trajectory, reward: float, drafts: list[SkillDraft], vectors: Float32Array
    ) -> Learned:
        rows, settings = self._rows, self._settings
        user = rows.nodes(change, "user", [trajectory.user])[trajectory.user]
        own = rows.add_trajectory(change, trajectory.id, user, trajectory.query, trajectory.outcome, reward)
        used_before = self._recaller.uses(own, user, self._visible(trajectory.skills, user), reward)
        before = {use.skill: use for use in used_before}
        placed = self._place(change, trajectory.user, drafts, vectors)
        self._sharing.withdraw(change, user, placed.unsaid)
        used = self._visible(trajectory.skills, user)  # a shared skill may just have been deleted
        shown = [skill for skill in self._visible(trajectory.shown, user) if skill not in placed.ended]
        rows.add_edges(change, [EdgeRow("SHOWN", own, skill, reward) for skill in shown])
        fresh, good = placed.added, reward >= settings.learn_from
        touched = list(dict.fromkeys([*used, *placed.merged, *placed.updated, *fresh]))
        touched = [skill for skill in touched if skill not in placed.ended]
        # What a user asked for after a failure wasn't tried yet, so the failure says nothing about it.
        executed = [skill for skill in touched if good or skill in used or skill not in placed.wishes]
        uses = [before.get(skill) or Use(own, user, skill, reward) for skill in executed]
        edges = [EdgeRow("EXECUTED", own, use.skill, reward, None, use.user_term, use.community_term) for use in uses]
        rows.add_edges(change, edges)
        rows.count_uses(change, executed, reward)
        complements: list[tuple[int, int]] = []
        retired = list(placed.ended)
        if good:
            scenarios = rows.nodes(change, "scenario", trajectory.scenarios)
            triggers = [EdgeRow("TRIGGERS", scenario, skill) for scenario in scenarios.values() for skill in touched]
            rows.add_edges(change, triggers)
            complements = self._complement(change, touched)
        if fresh:
            retired += self._enforce_maximum(change, user, keep=set(touched))
        cache = self._recaller.cache
        merged = np.array([skill for skill in placed.merged if cache.owner[skill] == user], np.int64)
        known = dict(zip(merged.tolist(), cache.vectors(merged), strict=True)) if len(merged) else {}
        shared = self._sharing.promote(change, user, fresh | placed.updated | known)
        return Learned(
            trajectory.id,
            added=_ids(fresh),
            merged=_ids(placed.merged),
            updated=_ids(placed.updated),
            retired=_ids(retired),
            shared=_ids(shared),
            complements=tuple((f"s{one}", f"s{other}") for one, other in complements),
        )

    def _place(self, change: Change, owner: str, drafts: Sequence[SkillDraft], vectors: Float32Array) -> Placed:
        """Write the drafts of one trajectory among the skills that its user already has. A draft with a similar vector
        and the same meaning word by word is merged into the existing skill. Similar vectors alone are not enough,
        because opposites have them too: then a wish becomes the newest version."""
        rows, settings, placed = self._rows, self._settings, Placed()
        user = rows.nodes(change, "user", [owner])[owner]
        for draft, vector in zip(drafts, vectors, strict=True):
            alike, same = self._most_similar(user, vector, placed), None
            newest_wins = draft.wish and settings.newest_wins and alike not in placed.added | placed.updated
            if alike is not None and meaning(rows.texts([alike])[alike]) == meaning(draft.text):
                skill = same = alike
            elif alike is not None and newest_wins:
                before = rows.skills([alike])[alike]
                placed.unsaid.append(before.text)
                if twin := rows.twins([(user, draft.text)]).get((user, draft.text)):
                    rows.end_skills(change, [alike])
                    placed.ended.append(alike)
                    skill = same = twin
                else:
                    new = NewSkill(before.owner, draft.text, draft.tools, draft.scenarios, before.visibility)
                    self._editor.supersede(change, alike, new, vector, max(change.now, before.valid_from))
                    placed.updated[alike] = vector
                    skill = alike
            else:
                visibility: Visibility = "shared" if settings.share_learned else "private"
                new = NewSkill(owner, draft.text, draft.tools, draft.scenarios, visibility)
                skill = check_skill(self._editor.write(change, [new], vector[np.newaxis])[0].id)
                if skill in self._recaller.cache.owned.get(user, ()):  # the owner has exactly this text already
                    same = skill
                else:
                    placed.added.setdefault(skill, vector)
            if same is not None:
                self._editor.broaden(change, same, draft.tools, draft.scenarios)
                if same not in placed.added and same not in placed.updated and same not in placed.merged:
                    placed.merged.append(same)
            if draft.wish:
                placed.wishes.add(skill)
        return placed

    def _most_similar(self, user: int, vector: Float32Array, placed: Placed) -> int | None:
        """Return the user's skill that is similar enough to be the same, the most similar one."""
        cache = self._recaller.cache
        members = sorted(cache.owned.get(user, set()) - set(placed.ended) - set(placed.updated))
        found = [(float(vector @ other), skill) for skill, other in (placed.added | placed.updated).items()]
        if members:
            near, similarity = cache.index.among(vector, ALIKE, members)
            likely = self._recaller.no_cases(near.tolist())[:1]
            found = [*((float(similarity[near == one][0]), one) for one in likely), *found]
        alike, best = max(found, key=lambda one: one[0], default=(0.0, 0))
        return best if alike > self._settings.merge_above else None

    def _drafts(self, trajectory: Trajectory, reward: float) -> list[SkillDraft]:
        """Return the extractor's drafts, checked like any input, because the extractor may be a model."""
        settings = self._settings
        good = reward >= settings.learn_from
        heard = settings.wishes_from is None or reward >= settings.wishes_from
        if not (good or heard):
            return []
        drafts = self._extractor(trajectory, settings.new_skills)[: settings.new_skills]
        kept = [draft for draft in drafts if (heard if draft.wish else good)]
        for draft in kept:
            check_text("drafted skill", draft.text, min(LONGEST_DRAFT, settings.longest_text))
        return [
            replace(one, tools=check_names("tool", one.tools), scenarios=check_names("scenario", one.scenarios))
            for one in kept
        ]

    def _as_said(self, trajectory: Trajectory, maximum: int) -> list[SkillDraft]:
        """Draft without a model: what the user said that lasts, as it was said."""
        said = [one for one in own_words(trajectory.outcome) if not has_secret(one)]
        kinds = kinds_of(said, (), self._recaller.embedder)
        lasting = [one for one, kind in zip(said, kinds, strict=True) if kind not in ("other", "forget")]
        return extract(replace(trajectory, outcome="\n".join(lasting)), maximum)

    def _visible(self, skills: Iterable[str], user: int) -> list[int]:
        """Return those of these skills that still exist and that the user may see."""
        numbers = dict.fromkeys(found for found in map(skill_number, skills) if found is not None)
        return list(self._rows.skills(list(numbers), user))

    def _complement(self, change: Change, skills: list[int]) -> list[tuple[int, int]]:
        needed = self._settings.complement_after
        if not needed or len(skills) < 2:
            return []
        new = []
        for pair, count in self._rows.co_uses(skills, self._settings.learn_from).items():
            if count >= needed and self._rows.add_edges(change, [EdgeRow("COMPLEMENTS", *pair)]):
                new.append(pair)
                self._rows.touch(change, pair)
        return new

    def _enforce_maximum(self, change: Change, user: int, keep: set[int]) -> list[int]:
        """Retire the least useful skills until the user has no more than the maximum. Those of this trajectory stay."""
        cache, owned = self._recaller.cache, set(self._rows.owned(user))
        if len(owned) > self._settings.skills_per_owner:
            owned = set(self._recaller.no_cases(sorted(owned)))
        # With one imagined use of reward 0.5, a skill without any isn't the first to go. Of equals, the oldest goes.
        worth = {one: (0.5 + float(cache.rewards[one])) / (1 + int(cache.used[one])) for one in owned - keep}
        over = max(0, len(owned) - self._settings.skills_per_owner)
        retired = sorted(sorted(worth, key=lambda one: (worth[one], one))[:over])
        self._rows.end_skills(change, retired)
        return retired


def as_trajectory(given: Trajectory | Mapping[str, Any]) -> Trajectory:
    """Return a trajectory from one, or from a mapping such as JSON gives.

    >>> as_trajectory({"id": "t1", "user": "ana", "query": "hello", "steps": [{"action": "greet"}]}).steps[0].action
    'greet'
    """
    if isinstance(given, Trajectory):
        return given
    try:
        values: dict[str, Any] = {"steps": (), "scenarios": (), "skills": (), "shown": (), "kept": (), **given}
        values["steps"] = tuple(Step(**step) for step in values["steps"])
        for name in ("scenarios", "skills", "shown", "kept"):
            # A string stays a string, so that the check can reject it.
            values[name] = values[name] if isinstance(values[name], str) else tuple(values[name])
        return Trajectory(**values)
    except (TypeError, ValueError) as error:
        known = ", ".join(field.name for field in fields(Trajectory))
        problem = f"not a trajectory: {error}"
        raise BadInputError(problem, fix=f"pass {known}; a step has action, tool and worked") from None


def _ids(numbers: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"s{one}" for one in numbers)
