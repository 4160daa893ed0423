"""Deletes rows for good: all those of a user, or single versions of skills.

This is one transaction. The bytes of deleted rows stay in the files until `Store.erase`. Both functions return row
counts by the names of `Receipt`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.graph.stores.store import Among, Change, Delete, Not, Select, Update

__all__ = ["erase_versions", "forget_user"]

COMMUNITIES, PREPARED = "communities", "search"
"""How the names of saved states begin that hold no words of anyone: those of communities, and what a search was
prepared with, which says how common words are that a thousand skills have."""


def forget_user(rows: GraphRows, change: Change, user: int) -> dict[str, int]:
    """Delete a user and all their data, and all saved states."""
    store = rows.store
    versions, trips = store.read(
        Select("version", ("number",), {"owner": user}, distinct=True),
        Select("trajectory", ("number",), {"user": user}),
    )
    skills, trajectories = ([number for (number,) in some] for some in (versions, trips))
    gone = [*skills, *trajectories, user]
    neighbours = _neighbours(rows, gone)
    counts = store.write(
        Delete("version", {"number": Among(skills)}),
        Delete("live", {"number": Among(skills)}),
        Delete("profile", {"user": user}),
        Delete("edge", {"source": Among(gone)}),
        Delete("edge", {"target": Among(gone)}),
        Delete("trajectory", {"number": Among(trajectories)}),
        Delete("state", {"name": Among(_states(rows, lambda name: name.startswith(COMMUNITIES)))}),
    )
    store.write(Delete("node", {"number": Among(trajectories)}))
    (users,) = store.write(Delete("node", {"number": user}))
    receipt = {
        "skills": len(skills),
        "versions": counts[0],
        "vectors": counts[1] + counts[2],
        "edges": counts[3] + counts[4],
        "trajectories": counts[5],
        "nodes": users + _delete_unused(rows, neighbours),
        "communities": counts[6],
        "word_index": _note_forgotten(rows, change, [*skills, user]),
    }
    rows.recount(change, sorted(neighbours.difference(gone)))
    return receipt


def erase_versions(
    rows: GraphRows, change: Change, versions: Sequence[tuple[int, int]], trajectories: Sequence[int]
) -> dict[str, int]:
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
    return {
        "skills": len(skills),
        "versions": sum(deleted),
        "vectors": counts[0],
        "edges": counts[1] + counts[2],
        "trajectories": counts[3],
        "nodes": _delete_unused(rows, neighbours),
        "word_index": _note_forgotten(rows, change, skills),
    }


def _note_forgotten(rows: GraphRows, change: Change, gone: list[int]) -> int:
    """Delete what is kept beside the rows of nodes, and tell other processes that they are gone.

    Returns the number of saved pieces of the word index.
    """
    saved = _states(rows, lambda name: not name.startswith((COMMUNITIES, PREPARED)))
    deleted, *_ = rows.store.write(
        Delete("state", {"name": Among(saved)}),
        Delete("staged", {"number": Among(gone)}),
        Delete("community", {"node": Among(gone)}),
    )
    rows.note_ended(change, gone)
    rows.store.set_head(forgotten=change.number)
    return deleted


def _states(rows: GraphRows, wanted: Callable[[str], bool]) -> list[str]:
    """Return the names of the saved states that are wanted."""
    return [name for (name,) in rows.store.read(Select("state", ("name",)))[0] if wanted(name)]


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
