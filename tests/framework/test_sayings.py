"""Memories that hear what users say, and show what they keep of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from planted_bugs.memories import Ears

from agentfw import Component, Memory, hookimpl
from agentfw.boundary.crossing import GuardedMemory
from agentfw.boundary.layers import MemoryThread
from agentfw.errors import PluginError, UsageError
from agentfw.memory import Remembered, Saying
from agentfw.testing import check_component, fresh_host

SAYING = Saying("run/tea/0", "ada", "I like green tea.", "tea", 1_700_000_000.0)


class Plugin:
    @hookimpl
    def agentfw_memories(self) -> list[Component]:
        return [Component("ears", "not.imported:Ears", "")]


def guarded(memory: Memory) -> GuardedMemory:
    return GuardedMemory(memory, fresh_host(Plugin()).guard("memory", "ears", 60.0))


def test_a_guarded_memory_in_its_thread_hears_and_shows() -> None:
    thread = MemoryThread()
    memory = guarded(Ears())
    memory.inside = thread.beside(memory.inside)

    async def run() -> list[Sequence[Remembered]]:
        await memory.hear(SAYING)
        heard = await memory.remembered("ada")
        await memory.correct("ada", SAYING.id, "I like black tea.")
        corrected = await memory.remembered("ada")
        await memory.forget_one("ada", SAYING.id)
        return [heard, corrected, await memory.remembered("ada")]

    heard, corrected, forgotten = asyncio.run(run())
    thread.close()

    assert [one.text for one in heard] == ["I like green tea."]
    assert [one.text for one in corrected] == ["I like black tea."]
    assert not forgotten
    assert memory.overrides("remembered")


def test_a_memory_that_can_not_show_what_it_keeps_says_so_only_when_it_is_asked() -> None:
    memory = guarded(Memory())

    asyncio.run(memory.hear(SAYING))
    with pytest.raises(UsageError, match="the memory Memory can't show what it keeps of a user"):
        asyncio.run(memory.remembered("ada"))

    assert not memory.overrides("remembered")


def test_what_is_no_item_is_blamed_on_the_memory() -> None:
    class Odd(Ears):
        async def remembered(self, user: str) -> Sequence[Remembered]:
            return ["tea"]  # type: ignore[list-item]

    with pytest.raises(PluginError, match=r'memory "ears" .* gave a str, not a Remembered'):
        asyncio.run(guarded(Odd()).remembered("ada"))


def test_a_memory_that_hears_keeps_the_promises() -> None:
    assert [result.name for result in check_component("memory", Ears) if not result.passed] == []
