"""Exports a graph as lines of JSON, imports it again, and converts it to networkx.

An import restores an export exactly: every row, with history and vectors, from any store to any other.

    graph.export_jsonl("team-a.jsonl")
    SkillGraph.open("postgresql://...", tenant="team-a").import_jsonl("team-a.jsonl")
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentfw_memory.errors import BadInputError, MissingExtraError
from agentfw_memory.graph.recall.recall import Recaller
from agentfw_memory.graph.rows.dump import Record, dump, load
from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.private_file import make_private

if TYPE_CHECKING:
    import networkx

__all__ = ["export_jsonl", "import_jsonl", "to_networkx"]

FORMAT = "agentfw skill graph 2"


def export_jsonl(rows: GraphRows, path: str | Path) -> int:
    """Write every row to a file and return the number of rows. The file is complete or absent, never partial."""
    target = Path(path)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    count = 0
    make_private(partial)
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(json.dumps({"format": FORMAT}) + "\n")
            for record in dump(rows):
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return count


def import_jsonl(rows: GraphRows, path: str | Path) -> int:
    """Import a file into an empty tenant and return the number of rows. An invalid row undoes the whole import."""
    if any(count for counts in rows.counts().values() for count in counts.values()):
        raise BadInputError(f'tenant "{rows.tenant}" is not empty', fix="import into a tenant with another name")
    with rows.writing() as change:
        try:
            return load(rows, change, _records(Path(path)))
        except ValueError as error:
            raise BadInputError(
                f"{path} can't be imported: {error}", fix="repair the file or export it again; nothing was imported"
            ) from None


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


def to_networkx(rows: GraphRows, recaller: Recaller) -> networkx.MultiDiGraph[str]:
    """Return the current graph. Nodes are named like `user:ana` and `skill:s1` and carry their communities."""
    try:
        import networkx
    except ImportError:
        raise MissingExtraError("to_networkx", "memory", module="networkx") from None
    graph: networkx.MultiDiGraph[str] = networkx.MultiDiGraph()
    recaller.communities()  # finds them, if nothing needed them so far
    names: dict[int, str] = {}
    now: list[dict[str, Any]] = []
    for record in dump(rows):
        kind = record["row"]
        if kind == "node":
            name = names[record["number"]] = f"{record['kind']}:{record['name']}"
            graph.add_node(name, kind=record["kind"], **_communities(recaller, record["number"]))
        elif kind == "version" and record["valid_to"] is None:
            name = names[record["number"]] = f"skill:s{record['number']}"
            places = _communities(recaller, record["number"])
            graph.add_node(name, kind="skill", text=record["text"], visibility=record["visibility"], **places)
        elif kind == "live":
            graph.add_node(names[record["number"]], uses=record["uses"], rewards=record["rewards"])
        elif kind == "edge" and record["valid_to"] is None:
            now.append(record)
    for record in now:
        source, target = names[record["source"]], names[record["target"]]
        graph.add_edge(source, target, key=record["kind"], kind=record["kind"], weight=record["weight"])
    return graph


def _communities(recaller: Recaller, node: int) -> dict[str, int]:
    found = () if recaller.membership is None else recaller.membership.of(node)
    return {f"community_{level}": community for level, community in enumerate(found)}
