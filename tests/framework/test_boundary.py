"""The table of calls, and the layers that are made from it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentfw import Component, Memory, Task, hookimpl
from agentfw.boundary.calls import KINDS_OF_CALLS, Call, CallTable
from agentfw.boundary.crossing import Guarded, MemoryThread, layered, traced
from agentfw.boundary.forms import NUMBER, VALUE
from agentfw.errors import PluginError
from agentfw.memory import Query, Recollection
from agentfw.testing import fresh_host
from agentfw.tracker import Operation, Recall

NOT_CALLED = {
    "environment": {"goal", "time_per_token"},  # by itself
    "optimizer": {"forget"},  # when no run goes on
    "learner": {"logprobs"},  # by `score`
    "policy": {"priced", "beside"},  # arithmetic on its price; by a gateway that learns, inside the layers
    "tool": {"call"},  # by `answer`
}


class Plugin:
    @hookimpl
    def agentfw_memories(self) -> list[Component]:
        return [Component("notes", "not.imported:Notes", "")]


@pytest.mark.parametrize("kind", KINDS_OF_CALLS)
def test_every_method_of_a_kind_stands_in_the_table(kind: str) -> None:
    table = KINDS_OF_CALLS[kind]
    methods = {name for name, _ in inspect.getmembers(table.base, inspect.isfunction) if not name.startswith("_")}

    assert methods - NOT_CALLED.get(kind, set()) == set(table.calls)


class Counting(Memory):
    """A memory of a kind that has one method more."""

    def __init__(self) -> None:
        self.thread = ""

    async def recall(self, query: Query) -> Sequence[Recollection]:
        return [Recollection("tea")]

    async def count(self, user: str) -> int:
        self.thread = threading.current_thread().name
        return {"ada": 3}[user]


def test_a_new_method_crosses_all_layers_with_one_line_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    table = KINDS_OF_CALLS["memory"]
    more = CallTable(Counting, *table.calls.values(), Call("count", (VALUE,), NUMBER), attributes=table.attributes)
    monkeypatch.setitem(KINDS_OF_CALLS, "memory", more)
    layered.cache_clear()
    thread, memory, told = MemoryThread(), Counting(), list[Operation]()
    guard = fresh_host(Plugin()).guard("memory", "notes", 60.0)
    guarded = layered(Guarded, "memory")(thread.beside(memory), guard)
    crossing = traced("memory", guarded, "notes", told.append)

    async def asked() -> tuple[int, str, Sequence[Recollection]]:
        found = await crossing.count("ada")
        with pytest.raises(PluginError) as caught:
            await crossing.count(user="bob")
        return found, caught.value.message, await crossing.recall(Query("tea", Task(0, 7)))

    found, message, recalled = asyncio.run(asked())
    thread.close()
    layered.cache_clear()

    assert found == 3
    assert memory.thread == "agentfw memories"
    assert message == "memory \"notes\" of plugin 0 failed in count(): KeyError: 'bob'"
    assert [type(one) for one in told] == [Recall]
    assert recalled == [Recollection("tea")]


def test_the_boundary_imports_neither_hosts_nor_runs() -> None:
    folder = Path(inspect.getfile(Guarded)).parent

    lines = [line for file in folder.glob("*.py") for line in file.read_text("utf-8").splitlines()]

    imported = {line.split()[1] for line in lines if line.lstrip().startswith("from ..")}
    rooms = {"..host", "..runs", "..engine", "..printing", "..report", "..scaffold", "..testing", "..turns"}
    assert not {name for name in imported if any(name == room or name.startswith(f"{room}.") for room in rooms)}
