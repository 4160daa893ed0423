"""Exports a graph as lines of JSON, imports it again, and converts it to networkx.

An import restores an export exactly: every row, with history and vectors, from any store to any other.

    graph.admin.export_jsonl("team-a.jsonl")
    SkillGraph.open("postgresql://...", tenant="team-a").admin.import_jsonl("team-a.jsonl")
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import BadInputError, SkillGraphError, StorageError, StoreBusyError, needing
from ...files import make_private
from ..graph_rows import GraphRows
from ..recall.recall import Recaller
from ..records import EDGE_ENDS
from ..row_types import digest, told_apart
from ..stores.store import TABLES, Change, EmbedderRecord, Insert
from ..validation import check_name

if TYPE_CHECKING:
    import networkx

FORMAT = "agentfw skill graph 3"

Record = dict[str, Any]  # one exported row: plain JSON values, with the name of its table under "row"

# Rows come after those that they refer to. What a store makes itself is left out.
_EXPORTED = ("node", "trajectory", "version", "live", "edge", "profile")
_MADE = ("row", "changed", "digest", "words")
_COLUMNS = {name: tuple(one for one in TABLES[name].columns if one not in _MADE) for name in _EXPORTED}
_COLUMNS["live"] = ("number", "owner", "shared", "uses", "rewards", "vector")
_MALFORMED: tuple[type[Exception], ...] = (KeyError, ValueError, TypeError, AttributeError, SkillGraphError)


def export_jsonl(rows: GraphRows, path: str | Path) -> int:
    """Write every row to a file and return the number of rows. The file is complete or absent, never partial."""
    target, count = Path(path).absolute(), 0  # "." has no name
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    make_private(partial)
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(json.dumps({"format": FORMAT}) + "\n")
            for record in _dumped(rows):
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _dumped(rows: GraphRows) -> Iterator[Record]:
    """Yield all rows, history included, from one snapshot, in the order that an import expects."""
    with rows.store.snapshot():
        head = rows.store.head()
        assert head.embedder is not None  # a graph sets it when it is opened
        yield {"row": "tenant", "next_number": head.next_number, "embedder": list(astuple(head.embedder))}
        for table, columns in _COLUMNS.items():
            first = () if columns[0] in TABLES[table].key else TABLES[table].key
            for batch in rows.store.scan(table, (*first, *columns), {}, size=2_000):
                for values in batch:
                    record = {"row": table, **dict(zip(columns, values[len(first) :], strict=True))}
                    if "vector" in record:
                        vector = np.asarray(rows.store.vectors([record["vector"]])[0], "<f4")
                        record["vector"] = base64.b64encode(vector.tobytes()).decode()
                    yield record


def import_jsonl(rows: GraphRows, path: str | Path) -> int:
    """Import a file into an empty tenant and return the number of rows. An invalid row undoes the whole import."""
    if any(count for counts in rows.counts().values() for count in counts.values()):
        raise BadInputError(f'tenant "{rows.store.tenant}" is not empty', fix="import into a tenant with another name")
    with rows.store.writing() as change:
        try:
            return _load(rows, change, _records(Path(path)))
        except ValueError as error:
            problem = f"{path} can't be imported: {error}"
            raise BadInputError(problem, fix="repair the file or export it again; nothing was imported") from None


def _records(path: Path) -> Iterator[Record]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            try:
                record = json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {number + 1} is not valid JSON: {error}") from None
            if not isinstance(record, dict):
                raise ValueError(f"line {number + 1} is not a JSON object")
            if number == 0:
                if record.get("format") != FORMAT:
                    raise ValueError(f'it doesn\'t start with {{"format": "{FORMAT}"}}')
                continue
            yield record


def _load(rows: GraphRows, change: Change, records: Iterable[Record]) -> int:
    """Add exported rows to an empty tenant and return how many there are. Raises ValueError for an invalid row, and for
    vectors of another embedder than the tenant's."""
    dimensions = count = 0
    texts: dict[int, tuple[str, str, float]] = {}  # what is said of valid versions, whose rows of `live` follow later
    for count, record in enumerate(records, start=1):
        try:
            table = record["row"]
            if count == 1:
                if table != "tenant":
                    raise ValueError("an export starts with the row of its tenant")
                rows.store.set_head(next_number=int(record["next_number"]))
                name, version, dimensions = record["embedder"]
                maker, present = EmbedderRecord(str(name), str(version), int(dimensions)), rows.store.head().embedder
                if present != maker:
                    raise ValueError(f"its vectors were made by {maker}, those of this tenant by {present}")
                continue
            values: dict[str, Any] = {name: record[name] for name in _COLUMNS[table]}
            if table == "version" and values["valid_to"] is None:
                texts[values["number"]] = values["text"], values["metadata"], values["valid_from"]
            if table == "edge" and values["kind"] not in EDGE_ENDS:
                raise ValueError(f"unknown kind of edge {values['kind']!r}")
            if "name" in values:
                check_name(str(values["kind"]), values["name"])
            if "vector" in values:
                blob = base64.b64decode(values["vector"], validate=True)
                if len(blob) != 4 * dimensions or not np.isfinite(vector := np.frombuffer(blob, "<f4")).all():
                    raise ValueError(f"a vector isn't {dimensions} finite numbers")
                values |= {"vector": vector.astype(np.float32, copy=False), "changed": change.number}
            if table == "live":
                text, metadata, values["valid_from"] = texts.pop(values["number"])
                values |= {"digest": digest(told_apart(text, metadata)), "words": text}
            rows.store.write(Insert(table, tuple(values), [tuple(values.values())]))
        except (StorageError, StoreBusyError):
            raise
        except (*_MALFORMED, *rows.store.refusals) as error:
            raise ValueError(f"row {count} is invalid: {type(error).__name__}: {error}") from None
    return count


def to_networkx(recaller: Recaller) -> networkx.MultiDiGraph[str]:
    """Return the current graph. Nodes are named like `user:ana` and `skill:s1` and carry their communities."""
    with needing("to_networkx", "memory"):
        import networkx
    graph: networkx.MultiDiGraph[str] = networkx.MultiDiGraph()
    recaller.communities()  # finds them, if nothing needed them so far
    names, now = dict[int, str](), list[Record]()

    def add(record: Record, name: str, **values: Any) -> None:
        found = () if recaller.membership is None else recaller.membership.of(record["number"])
        names[record["number"]] = name
        graph.add_node(name, **values, **{f"community_{level}": one for level, one in enumerate(found)})

    for record in _dumped(recaller.rows):
        kind = record["row"]
        if kind == "node":
            add(record, f"{record['kind']}:{record['name']}", kind=record["kind"])
        elif kind == "version" and record["valid_to"] is None:
            name = f"skill:s{record['number']}"
            add(record, name, kind="skill", text=record["text"], visibility=record["visibility"])
        elif kind == "live":
            graph.add_node(names[record["number"]], uses=record["uses"], rewards=record["rewards"])
        elif kind == "edge" and record["valid_to"] is None:
            now.append(record)
    for record in now:
        source, target = names[record["source"]], names[record["target"]]
        graph.add_edge(source, target, key=record["kind"], kind=record["kind"], weight=record["weight"])
    return graph
