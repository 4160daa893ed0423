"""Reads memories that were exported from elsewhere: mem0, LangMem, or plain JSON.

    graph.add_all(read_memories("memories.json", owner="ana"))

A file is one JSON value or one object a line. Each record is recognised by its fields (`new_skill`): `memory` is
mem0's, `namespace` and `value` are LangMem's and any LangGraph store's, and `text` is plain.

Every record is checked before the first one is returned, so a broken line means that nothing is imported.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...errors import BadInputError
from ..records import NewSkill, Visibility

Record = Mapping[str, Any]

MEM0 = ("id", "user_id", "agent_id", "run_id", "app_id", "actor_id", "role")
"""What mem0 has beside the text of a memory, its metadata and the columns of ours."""


def read_memories(path: str | Path, *, owner: str = "") -> list[NewSkill]:
    """Return the memories of a file as skills. `owner` owns those whose record names nobody."""
    found = []
    for where, record in _records(Path(path)):
        try:
            found.append(new_skill(record, owner))
        except ValueError as error:
            raise BadInputError(f"{path}, {where}: {error}", fix="repair it; nothing was imported") from None
    return found


def _records(path: Path) -> Iterator[tuple[str, Record]]:
    """Yield the records of a file, each with where it is."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path} is not UTF-8 text: {error}", fix="save the file as UTF-8") from None
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if isinstance(whole, Mapping):
        # mem0 wraps its answer. One record alone is a file of one line.
        whole = whole["results"] if isinstance(whole.get("results"), Sequence) else [whole]
    if isinstance(whole, list):
        for number, record in enumerate(whole, start=1):
            yield f"record {number}", record
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except ValueError as error:
                problem = f"{path}, line {number} is not valid JSON: {error}"
                raise BadInputError(problem, fix="repair it; nothing was imported") from None


def new_skill(record: Any, owner: str) -> NewSkill:
    """Return a record as a skill. Raises ValueError for what is wrong with it."""
    if not isinstance(record, Mapping):
        raise ValueError(f"a record is an object, not {type(record).__name__}")
    metadata = record.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise ValueError(f"its metadata {metadata!r} is not an object")
    tools, about, shared, expires_at = tuple[str, ...](), tuple[str, ...](), False, None
    if "memory" in record:
        named = record.get("user_id") or record.get("agent_id") or record.get("run_id")
        text, when, expires_at = record["memory"], record.get("created_at"), record.get("expiration_date")
        about = _names(record.get("categories"))
        kept = {name: record[name] for name in MEM0 if record.get(name) is not None and record[name] != named}
        metadata = {**metadata, **kept}
    elif "namespace" in record and "value" in record:
        space, key = record["namespace"], record.get("key")
        named = "/".join(map(str, space)) if isinstance(space, list) else space
        text, when = _content(record["value"]), record.get("created_at")
        about = (f"key {key}",) if isinstance(key, str) and key.isprintable() else ()
        metadata = {name: record[name] for name in ("key", "value") if name in record}
    elif "text" in record:
        named = record.get("owner") or record.get("user")
        text, when, expires_at = record["text"], record.get("valid_from"), record.get("expires_at")
        tools, about = _names(record.get("tools")), _names(record.get("scenarios"))
        shared = record.get("shared") is True
    else:
        raise ValueError(
            f"a record needs text, memory, or namespace and value; it has {', '.join(record) or 'nothing'}"
        )
    whose = named if isinstance(named, str) and named else owner
    if not whose:
        raise ValueError("it names no owner, and no --owner was given")
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"the text {text!r} is not a sentence")
    visibility: Visibility = "shared" if shared else "private"
    since, until = _time(when), _time(expires_at)
    return NewSkill(whose, text, tools, about, visibility, since, metadata=dict(metadata), expires_at=until)


def _content(value: Any) -> Any:
    """Return the text in a value of a LangGraph store. LangMem puts it into `content`, sometimes twice."""
    while isinstance(value, Mapping):
        inner = next((value[name] for name in ("content", "text", "memory") if name in value), None)
        if inner is None:
            return json.dumps(value, ensure_ascii=False, sort_keys=True)
        value = inner
    return value


def _names(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{value!r} is not a list of names")
    return tuple(value)


def _time(value: Any) -> float | None:
    """Read seconds since 1970 or an ISO date. A time without a zone is UTC."""
    if value is None or isinstance(value, (int, float)):
        return value
    try:
        found = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"{value!r} is not a time; write it as 2023-05-07T12:00:00Z") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
