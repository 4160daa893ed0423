"""A session of the OpenAI Agents SDK that keeps its history in a skill graph.

    session = SkillGraphSession(SkillGraph.open("skills.db", tenant="team-a"), session_id="monday", user="ana")
    await Runner.run(agent, "when do we meet?", session=session)
    await session.recall("what did we say about the trip?")     # searches all sessions of ana

Each item of the conversation is a private skill of the user, so what was said in one session is found from another. It
is on disk when the call returns. Items are kept whole, also long ones; their first 20,000 characters are searched
(the graph's setting `longest_text`).
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from agentfw_memory.adapters import plain_text
from agentfw_memory.graph.records import NewSkill, Skill
from agentfw_memory.skill_graph import AsyncSkillGraph, SkillGraph

Item = dict[str, Any]


class SkillGraphSession:
    """One conversation of one user. It has the methods of `agents.memory.Session`."""

    session_settings = None

    def __init__(self, graph: SkillGraph, *, session_id: str, user: str) -> None:
        self._graph, self._user, self.session_id = graph, user, session_id
        self._scenario = f"session {session_id}"

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the latest items, oldest first."""
        return await asyncio.to_thread(self._items, limit)

    async def add_items(self, items: list[Item]) -> None:
        await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> Item | None:
        """Remove and return the latest item."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """End all items of this session. `graph.delete` and `graph.forget` delete for good."""
        await asyncio.to_thread(self._clear)

    async def recall(self, query: str, *, k: int = 5) -> list[Item]:
        """Return the items of any session of this user that fit a query best."""
        if not (asked := plain_text(query, self._graph.settings.longest_text)):
            return []
        hits = await AsyncSkillGraph(self._graph).recall(asked, user=self._user, k=k)
        return [item for hit in hits if (item := _content(hit.skill)) is not None]

    # Helpers

    def _skills(self) -> list[Skill]:
        return self._graph.skills(owner=self._user, scenario=self._scenario)

    def _items(self, limit: int | None) -> list[Item]:
        items = [item for skill in self._skills() if (item := _content(skill)) is not None]
        return items if limit is None else items[max(0, len(items) - limit) :]

    def _add(self, items: list[Item]) -> None:
        # The id, because people say "yes" more than once.
        self._graph.add_all(
            NewSkill(
                self._user,
                plain_text(item, self._graph.settings.longest_text) or "nothing in words",
                scenarios=(self._scenario,),
                metadata={"session": self.session_id, "id": uuid.uuid4().hex, "item": item},
            )
            for item in items
        )

    def _pop(self) -> Item | None:
        skills = self._skills()
        if not skills:
            return None
        self._graph.retire(skills[-1].id)
        return _content(skills[-1])

    def _clear(self) -> None:
        for skill in self._skills():
            self._graph.retire(skill.id)


def _content(skill: Skill) -> Item | None:
    """Return the item of a skill, or None for a skill that no session made."""
    item = skill.metadata.get("item")
    return item if isinstance(item, dict) else None
