"""Adding, changing and ending skills, and the edges between them.

The one rule: everything is checked and embedded before the first row is written, and then written in one transaction.
What one call does is there whole, or not at all.

An owner has a text once: who adds it again gets the skill that is there, with the new tools and scenarios added to it.
So a caller that doesn't know whether its last call arrived just repeats it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agentfw_memory.errors import BadInputError, UnknownSkillError
from agentfw_memory.graph.graph_settings import GraphSettings, Visibility
from agentfw_memory.graph.recall import Recaller
from agentfw_memory.graph.records import EDGE_ENDS, EdgeKind, NewSkill, Skill
from agentfw_memory.graph.stores.interface import Change, EdgeRow, Float32Array, SkillRow, Store
from agentfw_memory.graph.validation import name_of, names_of, number, skill_number, text_of

__all__ = ["Keeper"]

CONNECTED: tuple[EdgeKind, ...] = ("REQUIRES", "APPLIES_TO", "TRIGGERS", "COMPLEMENTS", "CONFLICTS")
"""The edges that a caller may draw. OWNS comes with a skill and EXECUTED with a trajectory."""


class Keeper:
    """Writes the skills of one tenant."""

    def __init__(self, store: Store, recaller: Recaller, settings: GraphSettings) -> None:
        self._store, self._recaller, self._settings = store, recaller, settings

    def add(self, skills: Iterable[NewSkill]) -> list[Skill]:
        wanted = [self._checked(skill) for skill in skills]
        if not wanted:
            return []
        vectors = self._recaller.embed([skill.text for skill in wanted])
        with self._store.writing() as change:
            return self.write(change, wanted, vectors)

    def write(self, change: Change, wanted: Sequence[NewSkill], vectors: Float32Array) -> list[Skill]:
        """Add skills that were checked and embedded already, within a transaction."""
        store = self._store
        self._recaller.check_embedder()
        owners = store.nodes(change, "user", [skill.owner for skill in wanted])
        tools = store.nodes(change, "tool", [tool for skill in wanted for tool in skill.tools])
        scenarios = store.nodes(change, "scenario", [name for skill in wanted for name in skill.scenarios])
        pairs = [(owners[skill.owner], skill.text) for skill in wanted]
        known = store.twins(pairs)
        fresh = list(dict.fromkeys(pair for pair in pairs if pair not in known))
        numbers = dict(zip(fresh, store.new_numbers(change, len(fresh)), strict=True)) if fresh else {}
        rows: dict[int, SkillRow] = {}
        edges: list[EdgeRow] = []
        repeated: list[int] = []
        for skill, pair, vector in zip(wanted, pairs, vectors, strict=True):
            when = self._moment(skill.valid_from, change)
            if pair in numbers and numbers[pair] not in rows:
                own = numbers[pair]
                rows[own] = SkillRow(own, pair[0], skill.text, skill.visibility, vector, when)
                edges.append(EdgeRow("OWNS", pair[0], own, 1.0, when))
            else:
                own = known.get(pair) or numbers[pair]
                repeated.append(own)
            edges += [EdgeRow("REQUIRES", own, tools[tool], 1.0, when) for tool in skill.tools]
            edges += [EdgeRow("APPLIES_TO", own, scenarios[name], 1.0, when) for name in skill.scenarios]
        store.add_skills(change, list(rows.values()))
        store.add_edges(change, edges)
        store.touch(change, repeated)
        found = store.skills(repeated) if repeated else {}
        owns = [known.get(pair) or numbers[pair] for pair in pairs]
        return [
            found.get(own) or _as_kept(skill, own, rows[own].valid_from, change.now)
            for skill, own in zip(wanted, owns, strict=True)
        ]

    def update(
        self,
        skill: str,
        *,
        text: str | None,
        visibility: Visibility | None,
        tools: Iterable[str] | None,
        scenarios: Iterable[str] | None,
        valid_from: float | None,
    ) -> Skill:
        own = skill_number(skill)
        names = {
            "tool": None if tools is None else names_of("tool", tools),
            "scenario": None if scenarios is None else names_of("scenario", scenarios),
        }
        if text is not None:
            text_of("skill", text, self._settings.longest_text)
        if visibility is not None:
            _check_visibility(visibility)
        new_vector = None if text is None else self._recaller.embed([text])[0]
        with self._store.writing() as change:
            self._recaller.check_embedder()
            before = self.current(own)
            when = self._moment(valid_from, change)
            if when < before.valid_from:
                raise BadInputError(
                    f"{skill} can't change at {when}: what it says now is so since {before.valid_from}",
                    fix="give a later valid_from, or none",
                )
            after = replace(before, text=text or before.text, visibility=visibility or before.visibility)
            if after != before:
                self._replace(change, own, after, new_vector, when)
            self._rename(change, own, "REQUIRES", names["tool"])
            self._rename(change, own, "APPLIES_TO", names["scenario"])
            self._store.touch(change, [own])
            return self.current(own)

    def retire(self, skill: str) -> None:
        own = skill_number(skill)
        with self._store.writing() as change:
            self.current(own)
            self._store.end_skills(change, [own])

    def connect(self, source: str, kind: str, target: str, weight: float) -> None:
        """Draw an edge; one that is there is drawn anew only where its weight is another."""
        if number("weight", weight) <= 0:
            raise BadInputError(f"an edge can't weigh {weight}", fix="give a weight above 0, or disconnect")
        with self._store.writing() as change:
            edge = replace(self._edge(change, source, kind, target), weight=float(weight))
            self._store.add_edges(change, [edge])
            self._touch_ends(change, edge)

    def disconnect(self, source: str, kind: str, target: str) -> bool:
        with self._store.writing() as change:
            edge = self._edge(change, source, kind, target)
            ended = self._store.end_edges(change, [edge])
            self._touch_ends(change, edge)
            return bool(ended)

    def set_profile(self, user: str, text: str) -> None:
        name_of("user", user)
        text_of("profile", text, self._settings.longest_text)
        vector = self._recaller.embed([text])[0]
        with self._store.writing() as change:
            self._recaller.check_embedder()
            self._store.set_profile(change, self._store.nodes(change, "user", [user])[user], text, vector)

    def merge(self, change: Change, stays: int, goes: int) -> None:
        """Let one skill stand for another too: it gets the edges, and the other ends."""
        store = self._store
        moved = []
        for edge in store.edge_rows(goes):
            if edge.kind == "OWNS":
                continue
            source, target = (stays if end == goes else end for end in (edge.source, edge.target))
            if source == target:
                continue
            if edge.kind in ("COMPLEMENTS", "CONFLICTS"):
                source, target = sorted((source, target))
            moved.append(EdgeRow(edge.kind, source, target, edge.weight))
        # An edge that the other has too keeps its weight.
        there = {(edge.kind, edge.source, edge.target) for edge in store.edge_rows(stays)}
        store.end_skills(change, [goes])
        store.add_edges(change, [edge for edge in moved if (edge.kind, edge.source, edge.target) not in there])
        store.recount(change, [stays])

    def current(self, own: int) -> Skill:
        found = self._store.skills([own])
        if own not in found:
            raise UnknownSkillError(f"s{own}")
        return found[own]

    # Within

    def _checked(self, skill: NewSkill) -> NewSkill:
        name_of("owner", skill.owner)
        text_of("skill", skill.text, self._settings.longest_text)
        _check_visibility(skill.visibility)
        if skill.valid_from is not None:
            number("valid_from", skill.valid_from)
        return replace(skill, tools=names_of("tool", skill.tools), scenarios=names_of("scenario", skill.scenarios))

    def _moment(self, given: float | None, change: Change) -> float:
        if given is None:
            return change.now
        if number("valid_from", given) > change.now:
            raise BadInputError(f"valid_from {given} has not come yet", fix="give a moment that has passed, or none")
        return float(given)

    def _replace(self, change: Change, own: int, after: Skill, new_vector: Float32Array | None, when: float) -> None:
        owner = self._store.nodes(change, "user", [after.owner])[after.owner]
        twin = self._store.twins([(owner, after.text)]).get((owner, after.text), own)
        if twin != own:
            raise BadInputError(f"{after.owner} has that text already, as s{twin}", fix=f"retire s{own} instead")
        vector = self._recaller.embed([after.text])[0] if new_vector is None else new_vector
        self._store.replace_skill(change, SkillRow(own, owner, after.text, after.visibility, vector, when))

    def _rename(self, change: Change, own: int, kind: EdgeKind, names: tuple[str, ...] | None) -> None:
        """Give a skill these tools or scenarios instead of those that it has."""
        if names is None:
            return
        wanted = set(self._store.nodes(change, EDGE_ENDS[kind][1], names).values())
        now = {edge.target for edge in self._store.edge_rows(own) if edge.kind == kind and edge.source == own}
        self._store.end_edges(change, [EdgeRow(kind, own, target) for target in sorted(now - wanted)])
        self._store.add_edges(change, [EdgeRow(kind, own, target) for target in sorted(wanted - now)])

    def _edge(self, change: Change, source: str, kind: str, target: str) -> EdgeRow:
        known = next((name for name in CONNECTED if name == kind), None)
        if known is None:
            more = " comes by itself" if kind in EDGE_ENDS else " is no kind of edge"
            raise BadInputError(f'"{kind}"{more}', fix=f"known: {', '.join(CONNECTED)}")
        ends = []
        for what, name in zip(EDGE_ENDS[known], (source, target), strict=True):
            if what == "skill":
                ends.append(skill_number(name))
                self.current(ends[-1])
            else:
                ends.append(self._store.nodes(change, what, [name_of(what, name)])[name])
        if known in ("COMPLEMENTS", "CONFLICTS"):
            ends.sort()
        if ends[0] == ends[1]:
            raise BadInputError(f"{source} can't be connected with itself", fix="name two skills")
        return EdgeRow(known, ends[0], ends[1])

    def _touch_ends(self, change: Change, edge: EdgeRow) -> None:
        ends = zip(EDGE_ENDS[edge.kind], (edge.source, edge.target), strict=True)
        self._store.touch(change, [end for what, end in ends if what == "skill"])


def _check_visibility(visibility: str) -> None:
    if visibility not in ("private", "shared"):
        raise BadInputError(f'a skill can\'t be "{visibility}"', fix="it is private or shared")


def _as_kept(skill: NewSkill, own: int, valid_from: float, recorded_at: float) -> Skill:
    return Skill(
        f"s{own}",
        skill.owner,
        skill.text,
        skill.tools,
        skill.scenarios,
        skill.visibility,
        valid_from=valid_from,
        recorded_at=recorded_at,
    )
