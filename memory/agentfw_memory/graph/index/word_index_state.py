"""Saves the word index in the store, so that opening a large graph doesn't split and stem every text again.

The saved index is a cache. Its head says as of which change it holds; whoever loads it indexes what changed later. It
isn't used if texts were split or stemmed in another way.

It is saved in blocks of skills, and only those blocks are written that changed. All of it is saved in one transaction,
so a killed process leaves the old one or the new one. Forgetting a user deletes it, in the transaction that deletes
the user.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from agentfw_memory.graph.index.word_index import BLOCK, Block, WordIndex
from agentfw_memory.graph.rows.graph_rows import GraphRows

FORMAT = 3
"""Goes up when blocks or the terms of texts change."""
HEAD = "words"
_UNREADABLE = (EOFError, KeyError, OSError, ValueError, zipfile.BadZipFile)


def load_words(rows: GraphRows) -> tuple[WordIndex, int] | None:
    """Return the saved index and the change it was saved at, or None if there is none that fits."""
    head = _head(rows.state(HEAD))
    if head is None:
        return None
    try:
        # Another process may save meanwhile. A block that is newer than the head does no harm: what changed after the
        # head is indexed again.
        return WordIndex.restored(_loaded(rows, head["blocks"])), head["counter"]
    except _UNREADABLE:
        return None  # it is built from the texts


def save_words(index: WordIndex, counter: int, rows: GraphRows) -> bool:
    """Save an index as of a change. Return False if another process has saved a newer one or forgotten a user."""
    before = rows.state(HEAD)
    head = _head(before)
    if head is not None and head["counter"] > counter:
        return False
    # What others have saved is right for all blocks that didn't change since this index was loaded or saved.
    known = set() if head is None else set(head["blocks"])
    held = set((index.numbers() // BLOCK).tolist())
    written = {block: _packed(one) for block, one in index.blocks(sorted(held - known | index.touched.keys()))}
    after = json.dumps({"way": way_of_terms(), "counter": counter, "blocks": sorted(held)}).encode()
    with rows.writing() as change:
        if rows.state(HEAD) != before or rows.store.head().forgotten > counter:
            return False
        for block, packed in written.items():
            rows.save_state(change, _name(block), packed)
        rows.save_state(change, HEAD, after)
    index.touched.clear()
    return True


def _loaded(rows: GraphRows, blocks: list[int]) -> Iterator[Block]:
    for block in blocks:
        packed = rows.state(_name(block))
        if packed is None:
            raise KeyError(block)
        with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
            names = arrays["names"].tobytes().decode()
            yield Block(
                arrays["numbers"], arrays["parts"], arrays["sizes"], arrays["pairs"], names.split("\n") if names else []
            )


def _packed(block: Block) -> bytes:
    buffer = io.BytesIO()
    np.savez(
        buffer,
        allow_pickle=False,
        numbers=block.numbers,
        parts=block.parts,
        sizes=block.sizes,
        pairs=block.pairs,
        names=np.frombuffer("\n".join(block.names).encode(), np.uint8),
    )
    return buffer.getvalue()


def _head(state: bytes | None) -> dict[str, Any] | None:
    """Return the head if its index was made as this process would make it."""
    head: dict[str, Any] = {} if state is None else json.loads(state)
    return head if head.get("way") == way_of_terms() else None


def way_of_terms() -> list[object]:
    """How texts become terms here. Another version of the stemmer may find other stems."""
    try:
        stemmer = importlib.metadata.version("snowballstemmer")
    except importlib.metadata.PackageNotFoundError:
        stemmer = ""
    return [FORMAT, stemmer]


def _name(block: int) -> str:
    return f"{HEAD} {block}"
