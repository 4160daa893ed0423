"""A LangGraph store that keeps its items in a skill graph.

    store = SkillGraphStore(SkillGraph.open("skills.db", tenant="team-a"))
    agent = builder.compile(store=store)

A namespace is an owner, and an item is one of that owner's private skills, so no search crosses a namespace. `search`
with a query uses the graph's recall: words, vectors, and what the graph knows. Every write is on disk when it returns.

The text of a skill is the item as JSON. All fields are searched, whatever `index` says. Items have no time to live.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from agentfw_memory.errors import MissingExtraError
from agentfw_memory.graph.records import Skill
from agentfw_memory.skill_graph import SkillGraph

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
    )
except ImportError:
    raise MissingExtraError("SkillGraphStore", "adapters", module="langgraph") from None

__all__ = ["SkillGraphStore"]

Namespace = tuple[str, ...]


class SkillGraphStore(BaseStore):  # type: ignore[misc]
    """Items by namespace and key, in the graph of one tenant."""

    def __init__(self, graph: SkillGraph) -> None:
        self._graph = graph

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return [self._done(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    # Helpers

    def _done(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, PutOp):
            return self._put(op)
        if isinstance(op, SearchOp):
            return self._search(op)
        assert isinstance(op, ListNamespacesOp)
        return self._namespaces(op)

    def _get(self, op: GetOp) -> Item | None:
        skill = self._skill(op.namespace, op.key)
        return None if skill is None else Item(**_fields(skill))

    def _put(self, op: PutOp) -> None:
        skill = self._skill(op.namespace, op.key)
        if op.value is None:
            if skill is not None:
                self._graph.retire_skill(skill.id)
            return
        text = json.dumps({"key": op.key, "value": dict(op.value)}, ensure_ascii=False, sort_keys=True)
        if skill is None:
            self._graph.add_skill(owner=_owner(op.namespace), text=text, scenarios=[_scenario(op.key)])
        elif skill.text != text:
            self._graph.update_skill(skill.id, text=text)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        owners = [
            name for name in self._graph.owners() if _namespace(name)[: len(op.namespace_prefix)] == op.namespace_prefix
        ]
        if op.query:
            found = self._ranked(op.query, owners, op)
        else:
            skills = [skill for owner in owners for skill in self._graph.skills(owner=owner)]
            skills.sort(key=lambda skill: (-skill.recorded_at, skill.id))
            found = [SearchItem(**_fields(skill)) for skill in skills if _fits(skill, op.filter)]
        return found[op.offset : op.offset + op.limit]

    def _ranked(self, query: str, owners: list[str], op: SearchOp) -> list[SearchItem]:
        """Return at least as many items as were asked for, if there are as many that pass the filter."""
        wanted, ranked = op.offset + op.limit, []
        for owner in owners:
            count = wanted
            while True:
                hits = self._graph.recall(query, user=owner, k=count)
                fitting = [hit for hit in hits if hit.skill.owner == owner and _fits(hit.skill, op.filter)]
                if len(fitting) >= wanted or len(hits) < count:
                    break
                count *= 4
            ranked += fitting[:wanted]
        ranked.sort(key=lambda hit: -hit.score)
        return [SearchItem(**_fields(hit.skill), score=hit.score) for hit in ranked]

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        every = [_namespace(name) for name in self._graph.owners()]
        fitting = [name for name in every if all(_matches(name, one) for one in op.match_conditions or ())]
        cut = sorted({name[: op.max_depth] for name in fitting})
        return cut[op.offset : op.offset + op.limit]

    def _skill(self, namespace: Namespace, key: str) -> Skill | None:
        return next(iter(self._graph.skills(owner=_owner(namespace), scenario=_scenario(key))), None)


def _owner(namespace: Namespace) -> str:
    return "/".join(label.replace("%", "%25").replace("/", "%2F") for label in namespace)


def _namespace(owner: str) -> Namespace:
    return tuple(label.replace("%2F", "/").replace("%25", "%") for label in owner.split("/"))


def _scenario(key: str) -> str:
    return f"key {key}"


def _fields(skill: Skill) -> dict[str, Any]:
    """Return the arguments of an item. A skill that the store didn't make has its id as the key."""
    item = _content(skill)
    return {
        "namespace": _namespace(skill.owner),
        "key": item.get("key", skill.id),
        "value": item.get("value", {"text": skill.text}),
        "created_at": datetime.fromtimestamp(skill.valid_from, UTC),
        "updated_at": datetime.fromtimestamp(skill.recorded_at, UTC),
    }


def _content(skill: Skill) -> dict[str, Any]:
    try:
        item = json.loads(skill.text)
    except ValueError:
        return {}
    return item if isinstance(item, dict) and item.keys() == {"key", "value"} else {}


def _fits(skill: Skill, wanted: dict[str, Any] | None) -> bool:
    value = _fields(skill)["value"]
    return all(name in value and _compares(value[name], one) for name, one in (wanted or {}).items())


def _compares(value: Any, wanted: Any) -> bool:
    """Compare with a value, or by the operators that LangGraph's stores know."""
    if not isinstance(wanted, dict) or not all(str(name).startswith("$") for name in wanted):
        return bool(value == wanted)
    return all(_OPERATORS[name](value, one) for name, one in wanted.items())


_OPERATORS = {
    "$eq": lambda value, other: value == other,
    "$ne": lambda value, other: value != other,
    "$gt": lambda value, other: value > other,
    "$gte": lambda value, other: value >= other,
    "$lt": lambda value, other: value < other,
    "$lte": lambda value, other: value <= other,
}


def _matches(name: Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    part = name[: len(path)] if condition.match_type == "prefix" else name[max(0, len(name) - len(path)) :]
    return len(part) == len(path) and all(wanted in ("*", label) for label, wanted in _pairs(part, path))


def _pairs(part: Namespace, path: Namespace) -> Iterator[tuple[str, str]]:
    return zip(part, path, strict=True)
