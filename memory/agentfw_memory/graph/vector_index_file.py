"""A search index in a file beside the store, so that opening a large graph doesn't mean building it again.

The one rule: it is a cache. It is taken only if it is whole, of this very store and no newer than it; it is written to
a new name and renamed; and whatever somebody forgot since is not left in it.

A file is a line of JSON, then FAISS's own bytes, then a checksum of both.
"""

from __future__ import annotations

import contextlib
import json
import os
from hashlib import blake2b
from pathlib import Path

from agentfw_memory.graph.stores.interface import Store
from agentfw_memory.graph.vector_index import ListIndex, faiss_library

__all__ = ["load_index", "remove_index", "save_index"]

FORMAT = 1
CHECKSUM = 32
"""Bytes."""
BLOCK = 1 << 20


def save_index(index: ListIndex, shelf: str, counter: int, store: Store) -> bool:
    """Keep an index as it was at a change; False where there is no place for it, or it's out of date already."""
    faiss = faiss_library()

    path = _path(store, shelf)
    if path is None:
        return False
    head = {"format": FORMAT, "store": store.identity, "counter": counter, "trained_for": index.trained_for}
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            check = blake2b(digest_size=CHECKSUM)

            def write(part: bytes) -> int:
                check.update(part)
                return file.write(part)

            write(json.dumps(head).encode() + b"\n")
            faiss.write_index(index.faiss, faiss.PyCallbackIOWriter(write))
            file.write(check.digest())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except FileNotFoundError:
        return False  # whoever forgot somebody has taken it away already
    finally:
        partial.unlink(missing_ok=True)
    if store.forgotten() > counter:
        # Somebody was forgotten in the meantime, and who forgot them may have looked for this file before it was there.
        remove_index(store)
        return False
    return True


def load_index(store: Store, shelf: str, *, dimensions: int, probed: float) -> tuple[ListIndex, int] | None:
    """The index and the change that it was saved at; None where there is none that fits."""
    path = _path(store, shelf)
    if path is None or not path.exists():
        return None
    faiss = faiss_library()

    with path.open("rb") as file:
        if not _whole(path):
            return None
        head = json.loads(file.readline())
        if head["format"] != FORMAT or head["store"] != store.identity or head["counter"] > store.counter():
            return None
        index = faiss.read_index(faiss.PyCallbackIOReader(file.read))
    if index.d != dimensions:
        return None
    return ListIndex(index, probed, head["trained_for"]), head["counter"]


def remove_index(store: Store) -> int:
    """Take the files away, with what others have begun to write of them; how many files that were."""
    path = store.index_path
    if path is None:
        return 0
    gone = 0
    for file in [file for file in path.parent.iterdir() if file.name.startswith(f"{path.stem}-")]:
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
            gone += 1
    return gone


def _path(store: Store, shelf: str) -> Path | None:
    path = store.index_path
    return None if path is None else path.with_name(f"{path.stem}-{shelf}{path.suffix}")


def _whole(path: Path) -> bool:
    left = path.stat().st_size - CHECKSUM
    check = blake2b(digest_size=CHECKSUM)
    with path.open("rb") as file:
        while left > 0 and (part := file.read(min(BLOCK, left))):
            check.update(part)
            left -= len(part)
        return left == 0 and file.read() == check.digest()
