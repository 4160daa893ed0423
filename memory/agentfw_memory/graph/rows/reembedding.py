"""Replaces all vectors of a tenant by those of another embedder, while the old ones stay in use.

New vectors are staged beside the old ones, batch by batch, so that a call that was interrupted can be repeated. When
every text has one, all are taken over in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.graph.stores.store import Among, Change, Delete, EmbedderRecord, Insert, Not, Select

__all__ = ["reembed", "stage_vectors", "take_staged", "unstaged"]

BATCH = 500
"""Number of texts that are embedded between two commits."""


def reembed(rows: GraphRows, record: EmbedderRecord, embed: Callable[[list[str]], Float32Array]) -> int | None:
    """Embed and store a batch of texts. Return how many, or None if all vectors are of this embedder already."""
    if rows.store.head().embedder == record:
        return None
    batch = unstaged(rows, record, BATCH)
    vectors = embed([text for _, text in batch]) if batch else ()
    with rows.writing() as change:
        stage_vectors(rows, record, dict(zip((number for number, _ in batch), vectors, strict=True)))
        # Check again under the write lock, because another process may have added a skill just now.
        if not unstaged(rows, record, 1):
            take_staged(rows, change, record)
    return len(batch)


def stage_vectors(rows: GraphRows, embedder: EmbedderRecord, vectors: Mapping[int, Float32Array]) -> None:
    """Store new vectors of skills and profiles without using them yet.

    Vectors staged for another embedder are deleted. Changing a text deletes its staged vector.
    """
    values = [(number, _key(embedder), vector) for number, vector in vectors.items()]
    rows.store.write(
        Delete("staged", {"embedder": Not(_key(embedder))}),
        Insert("staged", ("number", "embedder", "vector"), values, existing="replace"),
    )


def unstaged(rows: GraphRows, embedder: EmbedderRecord, most: int) -> list[tuple[int, str]]:
    """Return up to `most` (number, text) pairs that have no staged vector of this embedder."""
    there = Not(Among(Select("staged", ("number",), {"embedder": _key(embedder)})))
    skills, profiles = rows.store.read(
        Select("version", ("number", "text"), {"valid_to": None, "number": there}, limit=most),
        Select("profile", ("user", "text"), {"user": there}, limit=most),
    )
    return [(number, text) for number, text in (*skills, *profiles)][:most]


def take_staged(rows: GraphRows, change: Change, embedder: EmbedderRecord) -> None:
    """Replace all vectors by the staged ones."""
    rows.store.take_staged(change)
    rows.store.set_head(embedder=embedder)


def _key(embedder: EmbedderRecord) -> str:
    return f"{embedder.name}\n{embedder.version}\n{embedder.dimensions}"
