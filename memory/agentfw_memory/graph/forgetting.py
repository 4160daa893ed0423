"""Sharing what several users have in common, and deleting for good: all data of a user, skills, or one version.

A skill that at least `share_after` users have, word by word and for a common scenario, gets a shared copy. Its owner is
a reserved name, and each user behind it has an OWNS edge to it. When a user is forgotten or says something else, their
edge goes. With too few users left, or without one who has exactly its text, the copy goes too.

What is deleted leaves no words in the store: the rows go in one transaction, then the files are rewritten. With a skill
go shared copies of it, past versions with the same words, and what was kept of the trajectories that told it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from hashlib import blake2b

import numpy as np

from ..errors import BadInputError
from .graph_rows import GraphRows
from .graph_settings import FEWEST_SHARED
from .learning.extraction import PRIVATE
from .recall.recall import Recaller
from .records import Float32Array, Skill
from .row_types import EdgeRow, SkillRow, digest
from .stores.store import Among, Between, Change, Delete, Not, Select, Update
from .validation import check_name
from .words import meaning, terms

RESERVED = "*shared:"
COMPARED = 200  # maximum number of similar skills in which other users are looked for
_INSIDE = re.compile(r"(?<=\w[\s,'’])[\s\"'(„“«]*(\w)\w")
"""The first letter of a word inside a sentence, which is a capital in a name of any script that has them."""
TOLD = 0.5  # share of a skill's words from which on a trajectory's text counts as telling it

Counts = dict[str, int]  # numbers of rows by the names of `Receipt`


def check_user(what: str, name: str) -> None:
    """Check the name of a user, which mustn't be reserved for shared skills."""
    check_name(what, name)
    if name.startswith(RESERVED):
        problem = f'the {what} "{name}" starts with "{RESERVED}", which is reserved for shared skills'
        raise BadInputError(problem, fix="choose another name")


class Sharing:
    """The shared skills of one tenant."""

    def __init__(self, recaller: Recaller) -> None:
        self._recaller, self._rows, self._settings = recaller, recaller.rows, recaller.settings

    def promote(self, change: Change, user: int, skills: Mapping[int, Float32Array]) -> list[int]:
        """Share those of a user's skills that enough users have. Return the shared copies that are new."""
        rows, new = self._rows, list[int]()
        own = rows.skills(list(skills)) if self._settings.share_after else {}
        for number, skill in own.items():
            if PRIVATE.search(skill.text) or any(map(str.isupper, _INSIDE.findall(skill.text))):
                continue
            owner = _owner_of(skill.text)
            if copies := self._copies(owner):  # the others who have it are behind it already
                rows.add_edges(change, [EdgeRow("OWNS", user, copies[0])])
                rows.touch(change, copies)
                continue
            holders = {user: skill, **self._holders(change, skill, skills[number])}
            if len(holders) < self._settings.share_after:
                continue
            (copy,) = rows.store.new_numbers(1)
            counts = Counter(other.text for other in holders.values())
            text = min(counts, key=lambda one: (-counts[one], one))
            reserved = rows.nodes(change, "user", [owner])[owner]
            rows.add_skills(change, [SkillRow(copy, reserved, text, "shared", skills[number], change.now)])
            tools = sorted(set.intersection(*(set(one.tools) for one in holders.values())))
            scenarios = sorted(set.intersection(*(set(one.scenarios) for one in holders.values())))
            edges = [EdgeRow("OWNS", holder, copy) for holder in sorted(holders)]
            edges += [EdgeRow("REQUIRES", copy, to) for to in rows.nodes(change, "tool", tools).values()]
            edges += [EdgeRow("APPLIES_TO", copy, to) for to in rows.nodes(change, "scenario", scenarios).values()]
            rows.add_edges(change, edges)
            new.append(copy)
        return new

    def withdraw(self, change: Change, user: int, texts: Iterable[str]) -> None:
        """Take a user away from the shared copies of these texts."""
        for owner in sorted({_owner_of(text) for text in texts}):
            for copy in self._copies(owner):
                self._rows.end_edges(change, [EdgeRow("OWNS", user, copy)])
                self._rows.touch(change, [copy])
                self.delete_unless_shared(change, owner, copy)

    def behind(self, user: int) -> list[tuple[str, int]]:
        """Return the shared copies that a user is behind, each with its reserved owner."""
        skills = [row.target for row in self._rows.edge_rows(user) if row.kind == "OWNS" and row.source == user]
        found = self._rows.skills(skills)
        return [(skill.owner, number) for number, skill in found.items() if skill.owner.startswith(RESERVED)]

    def delete_unless_shared(self, change: Change, owner: str, copy: int) -> None:
        """Delete a copy if too few users, or none with its very text, are still behind it."""
        rows = self._rows
        text = rows.texts([copy])[copy]
        users = [row.source for row in rows.edge_rows(copy) if row.kind == "OWNS" and row.target == copy]
        enough = len(users) >= max(FEWEST_SHARED, self._settings.share_after)
        if enough and rows.twins([(user, text) for user in users]):
            return
        number = rows.find("user", owner)
        assert number is not None
        # Not ended but deleted: its text may be of the one who left.
        forget_user(rows, change, number, owner)
        if enough:
            self._recaller.focus(rows.names(users[:1])[users[0]])
            cache = self._recaller.cache
            texts = rows.texts(rows.owned(users[0]))
            own = np.array([skill for skill, other in texts.items() if meaning(other) == meaning(text)][:1], np.int64)
            self.promote(change, users[0], dict(zip(own.tolist(), cache.vectors(own), strict=True)))

    def _holders(self, change: Change, skill: Skill, vector: Float32Array) -> dict[int, Skill]:
        """Return the other users who have a private skill that says the same in a common scenario."""
        cache = self._recaller.cache
        others = np.flatnonzero(cache.live & ~cache.shared)
        if skill.scenarios:
            scenarios = self._rows.nodes(change, "scenario", skill.scenarios).values()
            members = {number for scenario in scenarios for number in self._rows.skills_of(scenario)}
            others = others[np.isin(others, list(members))]
        if not len(others):
            return {}
        near, similarity = cache.index.among(vector, COMPARED, others)
        close = [int(one) for one, value in zip(near, similarity, strict=True) if value > self._settings.merge_above]
        # Most of them say something else. A whole skill takes far longer to read than its text.
        same = [number for number, text in self._rows.texts(close).items() if meaning(text) == meaning(skill.text)]
        found = self._rows.skills(same).items()
        return {int(cache.owner[number]): other for number, other in found if other.owner != skill.owner}

    def _copies(self, owner: str) -> list[int]:
        """Return the shared copy of a reserved owner, if it is still valid."""
        number = self._rows.find("user", owner)
        return [] if number is None else self._rows.owned(number)


def _owner_of(text: str) -> str:
    """Return the reserved owner of the shared copy of a text: the same for all texts with the same meaning."""
    return RESERVED + blake2b(repr(sorted(meaning(text))).encode(), digest_size=8).hexdigest()


class Forgetter:
    """Deletes rows of one tenant."""

    def __init__(self, recaller: Recaller) -> None:
        self._recaller, self._rows, self._sharing = recaller, recaller.rows, Sharing(recaller)

    def forget(self, user: str) -> Counts:
        if (number := self._rows.find("user", user)) is None:
            return {}
        with self._recaller.writing() as change:
            shared = self._sharing.behind(number)
            counts = forget_user(self._rows, change, number, user)
            for owner, copy in shared:
                self._sharing.delete_unless_shared(change, owner, copy)
        return counts

    def erase(self, skills: Iterable[int], version: int | None = None, heard: str = "") -> Counts:
        """Delete the rows of skills, ended ones too, or of this past version of them. What isn't there is ignored. A
        message that asks for it, by the name of the saying, does so once."""
        owned, total = defaultdict[int, set[int]](set), Counter[str]()
        some = Select("version", ("number", "owner"), {"number": Among(list(skills))}, distinct=True)
        for skill, owner in self._rows.store.read(some)[0]:
            owned[owner].add(skill)
        if not owned:
            return {}
        with self._recaller.writing() as change:
            if heard and self._rows.find("saying", heard) is not None:
                return {}
            self._rows.nodes(change, "saying", [heard] if heard else [])
            for owner, its in owned.items():
                total.update(self._erase(change, owner, its, version))
        return total

    def _erase(self, change: Change, owner: int, skills: set[int], version: int | None) -> Counts:
        """Delete versions, skills that have no version left, and the texts of trajectories that told them."""
        versions, trips = self._rows.store.read(
            Select("version", ("number", "ordinal", "text", "valid_to"), {"owner": owner}),
            Select("trajectory", ("number", "query", "outcome"), {"user": owner}),
        )
        meant = {row for row in versions if row[0] in skills and version in (None, row[1])}
        if version is not None and any(end is None for *_, end in meant):
            problem = f"version {version} is what the skill says now"
            raise BadInputError(problem, fix="update the skill first, retire it, or delete the whole skill")
        texts = {text for _, _, text, _ in meant}
        said = {frozenset(terms(text) or [text]) for text in texts}  # one of signs alone has no terms
        past = {row: frozenset(terms(row[2]) or [row[2]]) for row in versions if row[3] is not None}
        same = [row for row in versions if row in meant or past.get(row) in said]
        told = list[int]()
        for number, query, outcome in trips:
            words = {query, outcome, *terms(f"{query} {outcome}")}
            if any(len(words & one) >= TOLD * len(one) for one in said):
                told.append(number)
        store, numbers = self._rows.store, sorted({number for number, *_ in same})
        deleted = store.write(*(Delete("version", {"number": one, "ordinal": ordinal}) for one, ordinal, *_ in same))
        left = store.read(Select("version", ("number",), {"number": Among(numbers)}, distinct=True))[0]
        gone = sorted(set(numbers).difference(number for (number,) in left))
        counts, _ = _delete_nodes(self._rows, change, gone, [])
        (emptied,) = store.write(Update("trajectory", {"number": Among(told)}, {"query": "", "outcome": ""}))
        self._sharing.withdraw(change, owner, texts)
        return {**counts, "versions": sum(deleted), "trajectories": emptied}


def forget_user(rows: GraphRows, change: Change, user: int, name: str) -> Counts:
    """Delete a user and all their data, and the saved communities."""
    store = rows.store
    versions, trips = store.read(
        Select("version", ("number",), {"owner": user}, distinct=True),
        Select("trajectory", ("number",), {"user": user}),
    )
    skills, trajectories = ([number for (number,) in some] for some in (versions, trips))
    states = [name for (name,) in store.read(Select("state", ("name",)))[0] if name.startswith("communities")]
    counts, neighbours = _delete_nodes(rows, change, skills, [*trajectories, user])
    versions_gone, profiles, trips_gone, users, *_ = store.write(
        Delete("version", {"number": Among(skills)}),
        Delete("profile", {"user": user}),
        Delete("trajectory", {"number": Among(trajectories)}),
        Delete("node", {"number": user}),
        Delete("node", {"number": Among(trajectories)}),
        Delete("state", {"name": Among(states)}),
        Delete("node", {"kind": "saying", "name": Between(digest(name), f"{digest(name)}g")}),
    )
    rows.recount(change, sorted(neighbours))
    counts |= {"versions": versions_gone, "vectors": counts["vectors"] + profiles, "trajectories": trips_gone}
    return {**counts, "nodes": counts["nodes"] + users, "communities": len(states)}


def _delete_nodes(rows: GraphRows, change: Change, skills: list[int], others: list[int]) -> tuple[Counts, set[int]]:
    """Delete what is kept of skills and other nodes beside their own rows, and tell other processes that they are gone.
    Return counts, and the nodes at the other end of their edges."""
    store, gone = rows.store, [*skills, *others]
    neighbours = _ends(rows, gone)
    vectors, sources, targets, *_ = store.write(
        Delete("live", {"number": Among(skills)}),
        Delete("edge", {"source": Among(gone)}),
        Delete("edge", {"target": Among(gone)}),
        Delete("staged", {"number": Among(gone)}),
        Delete("community", {"node": Among(gone)}),
    )
    rows.note_ended(change, gone)
    store.set_head(forgotten=change.number)
    # Tools and scenarios that have no edge left, ended edges included, are nobody's. That a message was heard is known
    # until its user is forgotten.
    kinds = store.read(Select("node", ("number", "kind"), {"number": Among(neighbours)}))[0]
    rest = [number for number, kind in kinds if kind not in ("user", "trajectory", "saying")]
    unused = set(rest) - _ends(rows, rest, own=True)
    (nodes,) = store.write(Delete("node", {"number": Among(sorted(unused)), "kind": Not("user")}))
    counts = {"skills": len(skills), "vectors": vectors, "edges": sources + targets, "nodes": nodes}
    return counts, neighbours.difference(gone)


def _ends(rows: GraphRows, numbers: list[int], *, own: bool = False) -> set[int]:
    """Return the nodes at the other end of these nodes' edges, or at their `own`, ended edges included."""
    some, sides = Among(numbers), ("source", "target")
    asked = zip(sides if own else sides[::-1], sides, strict=True)
    found = rows.store.read(*(Select("edge", (end,), {at: some}, distinct=True) for end, at in asked))
    return {number for ends in found for (number,) in ends}
