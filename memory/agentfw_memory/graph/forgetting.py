"""Deleting for good: all data of a user, single skills, or one version of a skill.

What is deleted leaves no words in the store: not in its rows and its log, nor in a later export. The
rows go in one transaction. Then the files are rewritten. A call that was interrupted there can be repeated.

The words of a single skill may be elsewhere too. With it go shared copies of it, past versions with the same words, and
what was kept of the trajectories of its owner that told it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from agentfw_memory.errors import BadInputError
from agentfw_memory.graph.recall.recall import Recaller
from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.graph.stores.store import Among, Change, Delete, Not, Select, Update
from agentfw_memory.graph.text.words import terms

if TYPE_CHECKING:
    from agentfw_memory.graph.learning.sharing import Sharing

TOLD = 0.5
"""Share of a skill's words from which on a trajectory's text counts as telling it."""

Counts = dict[str, int]
"""Numbers of rows by the names of `Receipt`."""


class Forgetter:
    """Deletes rows of one tenant."""

    def __init__(self, rows: GraphRows, recaller: Recaller, sharing: Sharing) -> None:
        self._rows, self._recaller, self._sharing = rows, recaller, sharing

    def forget(self, user: str) -> Counts:
        """Delete the rows of a user."""
        number = self._rows.find("user", user)
        return {} if number is None else self._deleted(lambda change: self._forget(change, number))

    def erase(self, skills: Iterable[int], version: int | None = None) -> Counts:
        """Delete the rows of skills, ended ones too, or of this past version of them. What isn't there is ignored."""
        owned: dict[int, set[int]] = {}
        some = Select("version", ("number", "owner"), {"number": Among(list(skills))}, distinct=True)
        for skill, owner in self._rows.store.read(some)[0]:
            owned.setdefault(owner, set()).add(skill)
        return self._deleted(lambda change: self._erase(change, owned, version)) if owned else {}

    # Helpers

    def _deleted(self, delete: Callable[[Change], Counts]) -> Counts:
        self._recaller.catch_up()
        with self._rows.writing() as change:
            self._recaller.catch_up(change.number - 1)
            return delete(change)

    def _forget(self, change: Change, user: int) -> Counts:
        shared = self._sharing.behind(user)
        counts = forget_user(self._rows, change, user)
        self._sharing.delete_unshared(change, shared)
        return counts

    def _erase(self, change: Change, owned: dict[int, set[int]], version: int | None) -> Counts:
        total: Counts = {}
        for owner, skills in owned.items():
            versions, trips = self._rows.store.read(
                Select("version", ("number", "ordinal", "text", "valid_to"), {"owner": owner}),
                Select("trajectory", ("number", "query", "outcome"), {"user": owner}),
            )
            rows = [(number, ordinal, text, end is not None) for number, ordinal, text, end in versions]
            meant = [row for row in rows if row[0] in skills and version in (None, row[1])]
            if version is not None and any(not past for *_, past in meant):
                raise BadInputError(
                    f"version {version} is what the skill says now",
                    fix="update the skill first, retire it, or delete the whole skill",
                )
            texts = {text for _, _, text, _ in meant}
            said = {frozenset(terms(text)) for text in texts}
            chosen = {(number, ordinal) for number, ordinal, _, _ in meant}
            same = [
                (number, ordinal)
                for number, ordinal, text, past in rows
                if (number, ordinal) in chosen or (past and frozenset(terms(text)) in said)
            ]
            told = [number for number, query, outcome in trips if _tells(f"{query} {outcome}", said)]
            counts = erase_versions(self._rows, change, same, told)
            self._sharing.withdraw(change, owner, texts)
            total = {name: total.get(name, 0) + count for name, count in counts.items()}
        return total


def _tells(text: str, said: set[frozenset[str]]) -> bool:
    words = set(terms(text))
    return any(len(words & one) >= TOLD * len(one) for one in said)


def forget_user(rows: GraphRows, change: Change, user: int) -> Counts:
    """Delete a user and all their data, and the saved communities."""
    store = rows.store
    versions, trips = store.read(
        Select("version", ("number",), {"owner": user}, distinct=True),
        Select("trajectory", ("number",), {"user": user}),
    )
    skills, trajectories = ([number for (number,) in some] for some in (versions, trips))
    gone = [*skills, *trajectories, user]
    neighbours = _neighbours(rows, gone)
    states = [name for (name,) in store.read(Select("state", ("name",)))[0] if name.startswith("communities")]
    counts = store.write(
        Delete("version", {"number": Among(skills)}),
        Delete("live", {"number": Among(skills)}),
        Delete("profile", {"user": user}),
        Delete("edge", {"source": Among(gone)}),
        Delete("edge", {"target": Among(gone)}),
        Delete("trajectory", {"number": Among(trajectories)}),
        Delete("node", {"number": Among(trajectories)}),
        Delete("node", {"number": user}),
    )
    receipt = {
        "skills": len(skills),
        "versions": counts[0],
        "vectors": counts[1] + counts[2],
        "edges": counts[3] + counts[4],
        "trajectories": counts[5],
        "nodes": counts[7] + _delete_unused(rows, neighbours),
        "communities": len(states),
    }
    store.write(Delete("state", {"name": Among(states)}))
    _note_forgotten(rows, change, [*skills, user])
    rows.recount(change, sorted(neighbours.difference(gone)))
    return receipt


def erase_versions(
    rows: GraphRows, change: Change, versions: Sequence[tuple[int, int]], trajectories: Sequence[int]
) -> Counts:
    """Delete these versions (number, ordinal), and skills that have no version left with their vectors and edges.

    Empty the texts of these trajectories.
    """
    store = rows.store
    deleted = store.write(*(Delete("version", {"number": number, "ordinal": one}) for number, one in versions))
    numbers = sorted({number for number, _ in versions})
    left = store.read(Select("version", ("number",), {"number": Among(numbers)}, distinct=True))[0]
    skills = sorted(set(numbers).difference(number for (number,) in left))
    neighbours = _neighbours(rows, skills)
    counts = store.write(
        Delete("live", {"number": Among(skills)}),
        Delete("edge", {"source": Among(skills)}),
        Delete("edge", {"target": Among(skills)}),
        Update("trajectory", {"number": Among(trajectories)}, {"query": "", "outcome": ""}),
    )
    _note_forgotten(rows, change, skills)
    return {
        "skills": len(skills),
        "versions": sum(deleted),
        "vectors": counts[0],
        "edges": counts[1] + counts[2],
        "trajectories": counts[3],
        "nodes": _delete_unused(rows, neighbours),
    }


def _note_forgotten(rows: GraphRows, change: Change, gone: list[int]) -> None:
    """Delete what is kept beside the rows of nodes, and tell other processes that they are gone."""
    rows.store.write(Delete("staged", {"number": Among(gone)}), Delete("community", {"node": Among(gone)}))
    rows.note_ended(change, gone)
    rows.store.set_head(forgotten=change.number)


def _neighbours(rows: GraphRows, numbers: list[int]) -> set[int]:
    """Return the nodes at the other end of these nodes' edges, ended edges included."""
    some = Among(numbers)
    found = rows.store.read(
        Select("edge", ("target",), {"source": some}, distinct=True),
        Select("edge", ("source",), {"target": some}, distinct=True),
    )
    return {number for ends in found for (number,) in ends}


def _delete_unused(rows: GraphRows, numbers: Iterable[int]) -> int:
    """Delete those of these tools and scenarios that have no edge left, ended edges included."""
    nodes = rows.store.read(Select("node", ("number", "kind"), {"number": Among(list(numbers))}))[0]
    rest = [number for number, kind in nodes if kind not in ("user", "trajectory")]
    some = Among(rest)
    used = rows.store.read(
        Select("edge", ("source",), {"source": some}, distinct=True),
        Select("edge", ("target",), {"target": some}, distinct=True),
    )
    unused = set(rest).difference(number for ends in used for (number,) in ends)
    return rows.store.write(Delete("node", {"number": Among(sorted(unused)), "kind": Not("user")}))[0]
