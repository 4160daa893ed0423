"""All rows of a tenant as plain JSON values, and back.

The same graph gives the same rows in every store, so an export of one can be imported into another.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from agentfw_memory.errors import SkillGraphError, StorageError, StoreBusyError
from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.records import EDGE_ENDS
from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.graph.rows.row_types import digest, told_apart
from agentfw_memory.graph.stores.store import Change, EmbedderRecord, Insert
from agentfw_memory.graph.stores.tables import TABLES
from agentfw_memory.graph.validation import check_name

__all__ = ["Record", "dump", "load"]

Record = dict[str, Any]
"""One exported row: plain JSON values, with the name of its table under "row"."""

# Rows come after those that they refer to. What a store makes itself is left out.
_EXPORTED = ("node", "trajectory", "version", "live", "edge", "profile")
_MADE = ("row", "changed", "digest", "words")
_COLUMNS = {name: tuple(one for one in TABLES[name].columns if one not in _MADE) for name in _EXPORTED}
_COLUMNS["live"] = ("number", "owner", "shared", "uses", "rewards", "vector")
_MALFORMED: tuple[type[Exception], ...] = (KeyError, ValueError, TypeError, AttributeError, SkillGraphError)


def dump(rows: GraphRows) -> Iterator[Record]:
    """Yield all rows, history included, from one snapshot, in the order that `load` expects."""
    with rows.store.snapshot():
        head = rows.store.head()
        maker = [head.embedder.name, head.embedder.version, head.embedder.dimensions] if head.embedder else None
        yield {"row": "tenant", "next_number": head.next_number, "embedder": maker}
        for table, columns in _COLUMNS.items():
            first = () if columns[0] in TABLES[table].key else TABLES[table].key
            for batch in rows.store.scan(table, (*first, *columns), {}, size=2_000):
                for values in batch:
                    record = {"row": table, **dict(zip(columns, values[len(first) :], strict=True))}
                    if "vector" in record:
                        vector = np.asarray(rows.store.vectors([record["vector"]])[0], "<f4")
                        record["vector"] = base64.b64encode(vector.tobytes()).decode()
                    yield record


def load(rows: GraphRows, change: Change, records: Iterable[Record]) -> int:
    """Add the rows of a dump to an empty tenant and return how many there are.

    Raises ValueError for an invalid row, and for vectors of another embedder than the tenant's.
    """
    dimensions = count = 0
    texts: dict[int, tuple[str, str, float]] = {}
    for count, record in enumerate(records, start=1):
        try:
            if count == 1:
                dimensions = _load_tenant(rows, record)
            else:
                _load_row(rows, change, record, dimensions, texts)
        except (StorageError, StoreBusyError):
            raise
        except (*_MALFORMED, *getattr(rows.store, "refusals", ())) as error:
            raise ValueError(f"row {count} is invalid: {type(error).__name__}: {error}") from None
    return count


def _load_tenant(rows: GraphRows, record: Record) -> int:
    """Load the first row of an export and return the dimensions of its vectors."""
    if record["row"] != "tenant":
        raise ValueError("an export starts with the row of its tenant")
    rows.store.set_head(next_number=int(record["next_number"]))
    if record["embedder"] is None:
        return 0
    name, version, dimensions = record["embedder"]
    maker, present = EmbedderRecord(str(name), str(version), int(dimensions)), rows.store.head().embedder
    if present is not None and present != maker:
        raise ValueError(f"its vectors were made by {maker}, those of this tenant by {present}")
    rows.store.set_head(embedder=maker)
    return maker.dimensions


def _load_row(
    rows: GraphRows, change: Change, record: Record, dimensions: int, texts: dict[int, tuple[str, str, float]]
) -> None:
    """Load one row. `texts` holds what is said of valid versions, whose rows of `live` follow later."""
    table = record["row"]
    values: dict[str, Any] = {name: record[name] for name in _COLUMNS[table]}
    if table == "version" and values["valid_to"] is None:
        texts[values["number"]] = values["text"], values["metadata"], values["valid_from"]
    if table == "edge" and values["kind"] not in EDGE_ENDS:
        raise ValueError(f"unknown kind of edge {values['kind']!r}")
    if "name" in values:
        check_name(str(values["kind"]), values["name"])
    if "vector" in values:
        values["vector"] = _decoded(values["vector"], dimensions)
        values["changed"] = change.number
    if table == "live":
        text, metadata, values["valid_from"] = texts.pop(values["number"])
        values |= {"digest": digest(told_apart(text, metadata)), "words": text}
    rows.store.write(Insert(table, tuple(values), [tuple(values.values())]))


def _decoded(text: str, dimensions: int) -> Float32Array:
    blob = base64.b64decode(text, validate=True)
    if len(blob) != 4 * dimensions or not np.isfinite(np.frombuffer(blob, "<f4")).all():
        raise ValueError(f"a vector isn't {dimensions} finite numbers")
    return np.frombuffer(blob, "<f4").astype(np.float32, copy=False)
