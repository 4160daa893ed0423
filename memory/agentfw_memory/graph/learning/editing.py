"""Adding, changing and retiring skills, and the edges between them.

Everything is checked and embedded before the first row is written, and written in one transaction. An owner has each
text once, so a caller can safely repeat a call whose answer was lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import BadInputError, UnknownSkillError
from ..forgetting import check_user
from ..recall.recall import NOBODY, Recaller
from ..records import EDGE_ENDS, EdgeKind, Float32Array, NewSkill, NodeKind, Skill
from ..row_types import EdgeRow, SkillRow, told_apart
from ..stores.store import Change, Delete, Insert, Update
from ..validation import check_metadata, check_name, check_names, check_number, check_skill, check_text, check_time

CONNECTED: tuple[EdgeKind, ...] = ("REQUIRES", "APPLIES_TO", "TRIGGERS", "COMPLEMENTS", "CONFLICTS")
"""The edges that a caller may add. OWNS comes with a skill and EXECUTED with a trajectory."""


class Editor:
    """Edits the skills of one tenant."""

    def __init__(self, recaller: Recaller) -> None:
        self._recaller, self._rows, self._settings = recaller, recaller.rows, recaller.settings

    def add(self, skills: Iterable[NewSkill]) -> list[Skill]:
        wanted = []
        for skill in skills:
            check_user("owner", skill.owner)
            check_text("skill", skill.text, self._settings.longest_text)
            _check_visibility(skill.visibility)
            for what in ("valid_from", "expires_at"):
                if (when := getattr(skill, what)) is not None:
                    check_time(what, when)
            check_metadata(skill.metadata)
            tools, scenarios = check_names("tool", skill.tools), check_names("scenario", skill.scenarios)
            wanted.append(replace(skill, tools=tools, scenarios=scenarios))
        if not wanted:
            return []
        vectors = self._recaller.embed([skill.text for skill in wanted])
        with self._rows.writing() as change:
            return self.write(change, wanted, vectors)

    def supersede(self, change: Change, own: int, skill: NewSkill, vector: Float32Array, when: float) -> None:
        """Make a text the newest version of a skill."""
        rows = self._rows
        owner = rows.nodes(change, "user", [skill.owner])[skill.owner]
        about = check_metadata(skill.metadata), skill.expires_at
        rows.replace_skill(change, SkillRow(own, owner, skill.text, skill.visibility, vector, when, *about))
        # What complemented or contradicted the old text needn't do so with the new one.
        rows.end_edges(change, [row for row in rows.edge_rows(own) if row.kind in ("COMPLEMENTS", "CONFLICTS")])
        self.broaden(change, own, skill.tools, skill.scenarios)
        rows.touch(change, [own])

    def broaden(self, change: Change, own: int, tools: Sequence[str], scenarios: Sequence[str]) -> None:
        edges = [EdgeRow("REQUIRES", own, tool) for tool in self._rows.nodes(change, "tool", tools).values()]
        applied = self._rows.nodes(change, "scenario", scenarios).values()
        self._rows.add_edges(change, [*edges, *(EdgeRow("APPLIES_TO", own, scenario) for scenario in applied)])

    def write(self, change: Change, wanted: Sequence[NewSkill], vectors: Float32Array) -> list[Skill]:
        """Add skills that are checked and embedded already, inside a transaction."""
        rows = self._rows
        self._recaller.check_embedder(change.embedder)
        owners = rows.nodes(change, "user", [skill.owner for skill in wanted])
        tools = rows.nodes(change, "tool", [tool for skill in wanted for tool in skill.tools])
        scenarios = rows.nodes(change, "scenario", [name for skill in wanted for name in skill.scenarios])
        about = [check_metadata(skill.metadata) for skill in wanted]
        named = [told_apart(skill.text, metadata) for skill, metadata in zip(wanted, about, strict=True)]
        pairs = list(zip((owners[skill.owner] for skill in wanted), named, strict=True))
        known = rows.twins(pairs)
        fresh = list(dict.fromkeys(pair for pair in pairs if pair not in known))
        new = rows.store.new_numbers(len(fresh)) if fresh else ()
        owns = known | dict(zip(fresh, new, strict=True))
        added: dict[int, SkillRow] = {}
        edges: list[EdgeRow] = []
        repeated: list[int] = []
        for skill, pair, vector, metadata in zip(wanted, pairs, vectors, about, strict=True):
            when = self._valid_from(skill.valid_from, change)
            own = owns[pair]
            if pair in known or own in added:
                repeated.append(own)
            else:
                what = skill.text, skill.visibility, vector, when, metadata, skill.expires_at
                added[own] = SkillRow(own, pair[0], *what)
                edges.append(EdgeRow("OWNS", pair[0], own, 1.0, when))
            edges += [EdgeRow("REQUIRES", own, tools[tool], 1.0, when) for tool in skill.tools]
            edges += [EdgeRow("APPLIES_TO", own, scenarios[name], 1.0, when) for name in skill.scenarios]
        rows.add_skills(change, list(added.values()))
        rows.add_edges(change, edges)
        found: dict[int, Skill] = {}
        if repeated:
            rows.touch(change, repeated)
            found = rows.skills(repeated)
        return [
            found.get(own)
            or Skill(
                *(f"s{own}", skill.owner, skill.text, skill.tools, skill.scenarios, skill.visibility),
                valid_from=added[own].valid_from,
                recorded_at=change.now,
                metadata=skill.metadata,
                expires_at=skill.expires_at,
            )
            for skill, own in zip(wanted, (owns[pair] for pair in pairs), strict=True)
        ]

    def update(
        self,
        skill: str,
        changes: Mapping[str, Any],
        names: Mapping[NodeKind, Iterable[str]],
        valid_from: float | None,
        expires_at: float | None,
    ) -> Skill:
        """Start a new version. Text, visibility and metadata that are None stay, and so do names that aren't given."""
        own, given = check_skill(skill), {name: value for name, value in changes.items() if value is not None}
        checked = {kind: check_names(kind, some) for kind, some in names.items()}
        if "text" in given:
            check_text("skill", given["text"], self._settings.longest_text)
        if "visibility" in given:
            _check_visibility(given["visibility"])
        check_metadata(given.get("metadata", {}))
        new_vector = self._recaller.embed([given["text"]])[0] if "text" in given else None
        with self._rows.writing() as change:
            self._recaller.check_embedder(change.embedder)
            before = self.current(own)
            when = self._valid_from(valid_from, change)
            if when < before.valid_from:
                problem = f"{skill} can't change at {when}: its current version is valid from {before.valid_from}"
                raise BadInputError(problem, fix="pass a later valid_from, or none")
            if expires_at is not None:
                given["expires_at"] = None if expires_at == math.inf else check_time("expires_at", expires_at)
            after = replace(before, **given)
            if replace(after, expires_at=before.expires_at) != before:
                owner = self._rows.nodes(change, "user", [after.owner])[after.owner]
                metadata = check_metadata(after.metadata)
                pair = owner, told_apart(after.text, metadata)
                twin = self._rows.twins([pair]).get(pair, own)
                if twin != own:
                    raise BadInputError(f"{after.owner} already has this text as s{twin}", fix=f"retire s{own} instead")
                vector = self._recaller.embed([after.text])[0] if new_vector is None else new_vector
                row = SkillRow(own, owner, after.text, after.visibility, vector, when, metadata, after.expires_at)
                self._rows.replace_skill(change, row)
            elif after != before:
                current = {"number": own, "valid_to": None}
                self._rows.store.write(Update("version", current, {"expires_at": after.expires_at}))
            for kind, some in checked.items():
                edge: EdgeKind = "REQUIRES" if kind == "tool" else "APPLIES_TO"
                wanted = set(self._rows.nodes(change, kind, some).values())
                now = {row.target for row in self._rows.edge_rows(own) if row.kind == edge and row.source == own}
                self._rows.end_edges(change, [EdgeRow(edge, own, target) for target in sorted(now - wanted)])
                self._rows.add_edges(change, [EdgeRow(edge, own, target) for target in sorted(wanted - now)])
            self._rows.touch(change, [own])
            return self.current(own)

    def retire(self, skill: str) -> None:
        own = check_skill(skill)
        with self._rows.writing() as change:
            self.current(own)
            self._rows.end_skills(change, [own])

    def connect(self, source: str, kind: str, target: str, weight: float = 1.0, *, end: bool = False) -> bool:
        """Add an edge, or change the weight of an existing one, or `end` it. Return whether something changed."""
        if check_number("weight", weight) <= 0:
            raise BadInputError(f"invalid weight of an edge: {weight}", fix="pass a weight above 0, or use disconnect")
        with self._rows.writing() as change:
            known = next((name for name in CONNECTED if name == kind), None)
            if known is None:
                problem = "is added automatically" if kind in EDGE_ENDS else "is not a kind of edge"
                raise BadInputError(f'"{kind}" {problem}', fix=f"use one of {', '.join(CONNECTED)}")
            ends, skills = list[int](), list[int]()
            for what, name in zip(EDGE_ENDS[known], (source, target), strict=True):
                if what == "skill":
                    ends.append(check_skill(name))
                    skills.append(ends[-1])
                    self.current(ends[-1])
                else:
                    check_name(what, name)
                    there = self._rows.find(what, name) or NOBODY  # what nobody has gets no node by ending its edge
                    ends.append(there if end else self._rows.nodes(change, what, [name])[name])
            one, other = sorted(ends) if known in ("COMPLEMENTS", "CONFLICTS") else ends
            if one == other:
                raise BadInputError(f"{source} can't be connected with itself", fix="pass two different skills")
            if end:
                changed = self._rows.end_edges(change, [EdgeRow(known, one, other)])
            else:
                changed = self._rows.add_edges(change, [EdgeRow(known, one, other, float(weight))])
            self._rows.touch(change, skills)
            return bool(changed)

    def set_profile(self, user: str, text: str) -> None:
        check_name("user", user)
        check_text("profile", text, self._settings.longest_text)
        vector = self._recaller.embed([text])[0]
        with self._rows.writing() as change:
            self._recaller.check_embedder(change.embedder)
            number = self._rows.nodes(change, "user", [user])[user]
            row = (number, change.number, text, vector)
            self._rows.store.write(
                Insert("profile", ("user", "changed", "text", "vector"), [row], existing="replace"),
                Delete("staged", {"number": number}),
            )

    def current(self, own: int) -> Skill:
        found = self._rows.skills([own])
        if own not in found:
            raise UnknownSkillError(f"s{own}")
        return found[own]

    def _valid_from(self, given: float | None, change: Change) -> float:
        if given is None:
            return change.now
        if check_time("valid_from", given) > change.now:
            raise BadInputError(f"valid_from {given} is in the future", fix="pass a time in the past, or none")
        return float(given)


def _check_visibility(visibility: str) -> None:
    if visibility not in ("private", "shared"):
        raise BadInputError(f'invalid visibility "{visibility}"', fix="use private or shared")
