"""Saves a search index beside the store, so that opening a large graph doesn't rebuild it.

The file is a cache. It is used only if it is intact, belongs to this store and tenant, and isn't newer than the store.
It is written under another name and renamed. It must never hold data of a user who was forgotten later.

A file is a line of JSON, FAISS's own bytes, and a checksum of both.
"""

from __future__ import annotations

import contextlib
import json
import os
from hashlib import blake2b
from pathlib import Path

from agentfw_memory.files import make_private
from agentfw_memory.graph.index.vector_index import ListIndex, faiss_library
from agentfw_memory.graph.rows.graph_rows import GraphRows

FORMAT = 1
CHECKSUM_BYTES = 32
BLOCK = 1 << 20


def save_index(index: ListIndex, part: str, counter: int, rows: GraphRows) -> bool:
    """Save an index as of a change. Return False if there is no place for it or it is already out of date."""
    faiss = faiss_library()

    path, head_now = _path(rows, part), rows.store.head()
    # The centre of a list of one skill is the vector of that skill, and stays when the skill is deleted. So an index
    # from before a deletion is used as long as this process runs, and the next process makes another one.
    if path is None or head_now.forgotten > index.trained_at:
        return False
    head = {"format": FORMAT, "store": head_now.identity, "counter": counter, "trained_for": index.trained_for}
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    make_private(partial)
    try:
        with partial.open("wb") as file:
            check = blake2b(digest_size=CHECKSUM_BYTES)

            def write(data: bytes) -> int:
                check.update(data)
                return file.write(data)

            write(json.dumps(head).encode() + b"\n")
            faiss.write_index(index.faiss, faiss.PyCallbackIOWriter(write))
            file.write(check.digest())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except FileNotFoundError:
        return False  # a process that forgot a user removed the partial file
    finally:
        partial.unlink(missing_ok=True)
    if rows.store.head().forgotten > counter:
        # A user was forgotten meanwhile, perhaps before this file was there to be removed.
        remove_indexes(rows)
        return False
    return True


def load_index(rows: GraphRows, part: str, *, dimensions: int, probed: float) -> tuple[ListIndex, int] | None:
    """Return a saved index and the change it was saved at, or None if there is none that fits."""
    path = _path(rows, part)
    if path is None or not path.exists():
        return None
    faiss = faiss_library()

    with path.open("rb") as file:
        if not _is_intact(path):
            return None
        head, now = json.loads(file.readline()), rows.store.head()
        if head["format"] != FORMAT or head["store"] != now.identity or head["counter"] > now.counter:
            return None
        index = faiss.read_index(faiss.PyCallbackIOReader(file.read))
    if index.d != dimensions:
        return None
    loaded = ListIndex(index, probed, head["trained_for"])
    loaded.trained_at = head["counter"]  # it was saved then, so nothing had been deleted since its training
    return loaded, head["counter"]


def remove_indexes(rows: GraphRows) -> int:
    """Delete all index files of a tenant, partial ones of other processes included. Return how many there were."""
    path = rows.store.index_path
    if path is None:
        return 0
    gone = 0
    for file in [file for file in path.parent.iterdir() if file.name.startswith(f"{path.stem}-")]:
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
            gone += 1
    return gone


def _path(rows: GraphRows, part: str) -> Path | None:
    path = rows.store.index_path
    return None if path is None else path.with_name(f"{path.stem}-{part}{path.suffix}")


def _is_intact(path: Path) -> bool:
    left = path.stat().st_size - CHECKSUM_BYTES
    check = blake2b(digest_size=CHECKSUM_BYTES)
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(BLOCK, left))):
            check.update(block)
            left -= len(block)
        return left == 0 and file.read() == check.digest()
