"""A LangGraph store that keeps its items in a skill graph.

    store = SkillGraphStore(SkillGraph.open("skills.db", tenant="team-a"))
    agent = builder.compile(store=store)

A namespace is an owner, and an item is one of that owner's private skills, so no search crosses a namespace. The text
of a skill is what `index` or `fields` say should be searched, or all values of the item; the item itself is the skill's
metadata. An item that isn't searched comes after all others.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any
from urllib.parse import quote, unquote

from ..errors import UnknownSkillError, needing
from ..graph.records import NewSkill, Skill
from ..graph.validation import check_filter, fits
from ..skill_graph import SkillGraph

with needing("SkillGraphStore", "adapters"):
    from langgraph.store import base

Namespace = tuple[str, ...]

PAGED = 100  # number of items of a namespace that are ranked at least
_ESCAPED = re.compile("[%/\x00-\x1f\x7f-\x9f]")  # what can't be in a label that is part of an owner's name


class SkillGraphStore(base.BaseStore):  # type: ignore[misc]
    """Items by namespace and key, in the graph of one tenant. `fields` are the paths of what is searched in an item,
    such as `["text", "tags[*]"]`. Default: all of it."""

    supports_ttl = True

    def __init__(
        self, graph: SkillGraph, *, fields: Sequence[str] | None = None, ttl: base.TTLConfig | None = None
    ) -> None:
        self._graph, self._fields, self.ttl_config = graph, fields, ttl
        self._writing = threading.Lock()

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Return what was there before the writes of this batch. Of several writes of one key, the last one counts."""
        asked = list(ops)
        results = [None if isinstance(op, base.PutOp) else self._read(op) for op in asked]
        with self._writing:  # a key is looked up before it is written
            self._write({(tuple(op.namespace), op.key): op for op in asked if isinstance(op, base.PutOp)})
        return results

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: base.Op) -> base.Result:
        if isinstance(op, base.SearchOp):
            return self._search(op)
        if isinstance(op, base.ListNamespacesOp):
            conditions = op.match_conditions or ()
            named = (tuple(one.path) for one in conditions if one.match_type == "prefix" and "*" not in one.path)
            every = [_namespace(name) for name in self._owners(next(named, ()))]
            fitting = [name for name in every if all(_matches(name, one) for one in conditions)]
            return sorted({name[: op.max_depth] for name in fitting})[op.offset : op.offset + op.limit]
        assert isinstance(op, base.GetOp)
        for skill in self._skills(tuple(op.namespace), op.key)[:1]:
            self._read_again([skill], op.refresh_ttl)
            return base.Item(**_fields(skill))
        return None

    def _write(self, puts: Mapping[tuple[Namespace, str], base.PutOp]) -> None:
        new = []
        for (namespace, key), op in puts.items():
            known = self._skills(namespace, key)
            # Two processes that put a new item at once have made two skills of it.
            for gone in known[op.value is not None :]:
                with suppress(UnknownSkillError):  # another process has just deleted it
                    self._graph.retire(gone.id)
            if op.value is None:
                continue
            value, paths = dict(op.value), op.index or self._fields
            at_paths = (one for path in paths or () for one in base.get_text_at_path(value, path))
            text = self._searchable("\n".join(_leaves(value) if paths is None else at_paths))
            text = "" if op.index is False else text
            about = {"key": key, "value": value, "searched": bool(text), "minutes": op.ttl}
            expires_at = None if op.ttl is None else time.time() + 60.0 * op.ttl
            text = text or _ESCAPED.sub(" ", key)
            with suppress(UnknownSkillError):
                if known:
                    ends = math.inf if expires_at is None else expires_at
                    kept = {**about, "created": _created(known[0])}
                    self._graph.update(known[0].id, text=text, metadata=kept, expires_at=ends)
                    continue
            known_by = (_scenario(namespace, key),)
            new.append(NewSkill(_owner(namespace), text, scenarios=known_by, metadata=about, expires_at=expires_at))
        self._graph.add_all(new)

    def _search(self, op: base.SearchOp) -> list[base.SearchItem]:
        wanted = op.filter or {}
        check_filter(wanted)
        end, found = op.offset + op.limit, list[tuple[Skill, float | None]]()
        owners = self._owners(tuple(op.namespace_prefix))
        if query := self._searchable(op.query or ""):
            where = {"searched": {"$ne": False}, **{f"value.{name}": one for name, one in wanted.items()}}
            # What is best of two isn't always first of four, so all pages are cut from the same list.
            count = next(PAGED * 4**step for step in itertools.count() if PAGED * 4**step >= end)
            for owner in owners:
                hits = self._graph.recall(query, user=owner, k=count, at_least=0.0, where=where)
                found += [(hit.skill, hit.score) for hit in hits if hit.skill.owner == owner]
            found.sort(key=lambda one: -(one[1] or 0.0))
        if len(found) < end:
            seen = {skill.id for skill, _ in found}
            rest = [skill for owner in owners for skill in self._graph.skills(owner=owner) if skill.id not in seen]
            rest = [skill for skill in rest if fits(_value(skill), wanted)]
            rest.sort(key=lambda skill: (-skill.recorded_at, skill.id))
            found += [(skill, None) for skill in rest]
        page = found[op.offset : end]
        self._read_again([skill for skill, _ in page], op.refresh_ttl)
        return [base.SearchItem(**_fields(skill), score=score) for skill, score in page]

    def _searchable(self, text: str) -> str:
        """Return what a graph takes of a text: no NULs or halves of characters, and at most so many characters."""
        plain = text.encode("utf-8", "replace").decode().replace("\x00", "")
        return plain[: self._graph.settings.longest_text].strip()

    def _owners(self, prefix: Namespace) -> list[str]:
        """Return the owners whose namespace begins with a prefix."""
        if not prefix:
            return self._graph.admin.owners()
        owner = _owner(prefix)
        names = self._graph.admin.owners(prefix=owner)
        return [name for name in names if name == owner or name.startswith(f"{owner}/")]

    def _skills(self, namespace: Namespace, key: str) -> list[Skill]:
        """Return the skill of an item, or nothing. Of several, the newest is first."""
        # The second name is the one that `read_memories` gives.
        for scenario in (_scenario(namespace, key), f"key {key}"):
            is_name = len(scenario) <= 200 and scenario.isprintable()
            if is_name and (found := self._graph.skills(owner=_owner(namespace), scenario=scenario)):
                return sorted(found, key=lambda one: -one.recorded_at)
        return []

    def _read_again(self, skills: Iterable[Skill], refresh: bool) -> None:
        """Let the time of items that were read begin anew."""
        for skill in skills if refresh else ():
            if minutes := skill.metadata.get("minutes"):
                with suppress(UnknownSkillError):
                    self._graph.update(skill.id, expires_at=time.time() + 60.0 * minutes)


def _owner(namespace: Namespace) -> str:
    return "/".join(_ESCAPED.sub(lambda sign: quote(sign[0], safe=""), label) for label in namespace)


def _namespace(owner: str) -> Namespace:
    return tuple(unquote(label) for label in owner.split("/"))


def _scenario(namespace: Namespace, key: str) -> str:
    """Return a scenario that only this item has, by which it is found. Keys may be long, and hold anything."""
    return f"item {blake2b(json.dumps([namespace, key]).encode(), digest_size=12).hexdigest()}"


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, (Mapping, list, tuple)):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(one)
    elif value is not None and str(value).strip():
        yield str(value)


def _fields(skill: Skill) -> dict[str, Any]:
    """Return the arguments of an item. A skill that the store didn't make has its id as the key."""
    return {
        "namespace": _namespace(skill.owner),
        "key": _content(skill).get("key", skill.id),
        "value": _value(skill),
        "created_at": datetime.fromtimestamp(_created(skill), UTC),
        "updated_at": datetime.fromtimestamp(skill.recorded_at, UTC),
    }


def _created(skill: Skill) -> float:
    return float(skill.metadata.get("created", skill.valid_from))


def _value(skill: Skill) -> dict[str, Any]:
    return dict(_content(skill).get("value", {"text": skill.text}))


def _content(skill: Skill) -> Mapping[str, Any]:
    """Return what the store keeps of an item, or nothing for a skill that it didn't make."""
    return skill.metadata if "key" in skill.metadata and "value" in skill.metadata else {}


def _matches(name: Namespace, condition: base.MatchCondition) -> bool:
    path = tuple(condition.path)
    part = name[: len(path)] if condition.match_type == "prefix" else name[max(0, len(name) - len(path)) :]
    return len(part) == len(path) and all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
