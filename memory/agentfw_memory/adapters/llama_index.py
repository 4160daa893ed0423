"""A memory block of LlamaIndex that keeps old messages in a skill graph and recalls those that fit the newest one.

    block = SkillGraphBlock(graph=SkillGraph.open("skills.db", tenant="team-a"), user="ana")
    memory = Memory.from_defaults(session_id="monday", memory_blocks=[block])

LlamaIndex hands over the messages that no longer fit into its short-term memory. Each becomes a private skill of the
user, and is on disk when the call returns. Role and session are its metadata.
"""

from __future__ import annotations

from typing import Any

from agentfw_memory.adapters import plain_text
from agentfw_memory.errors import MissingExtraError
from agentfw_memory.graph.records import NewSkill
from agentfw_memory.skill_graph import AsyncSkillGraph, SkillGraph

try:
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import BaseMemoryBlock
    from pydantic import Field
except ImportError:
    raise MissingExtraError("SkillGraphBlock", "adapters", module="llama_index") from None


class SkillGraphBlock(BaseMemoryBlock[str]):  # type: ignore[misc]
    """What a user said in any conversation."""

    name: str = "skill_graph"
    graph: SkillGraph
    user: str = Field(description="User whose messages are kept and recalled.")
    count: int = Field(default=5, ge=1, description="Maximum number of messages to recall.")

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        query = next((text for message in reversed(messages or []) if (text := self._text(message))), "")
        if not query:
            return ""
        hits = await AsyncSkillGraph(self.graph).recall(query, user=self.user, k=self.count)
        return "\n".join(f"- {hit.skill.text}" for hit in hits)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        said = [(message, text) for message in messages if (text := self._text(message))]
        longest = self.graph.settings.longest_text
        await AsyncSkillGraph(self.graph).add_all(
            NewSkill(self.user, f"{message.role.value}: {text}"[:longest], metadata=_about(message))
            for message, text in said
        )

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Leave out the messages that fit least, at about four characters a token."""
        lines = content.split("\n")
        while lines and len(content) - len("\n".join(lines)) < 4 * tokens_to_truncate:
            lines.pop()
        return "\n".join(lines) or None

    def _text(self, message: ChatMessage) -> str:
        return plain_text(message.content or "", self.graph.settings.longest_text)


def _about(message: ChatMessage) -> dict[str, Any]:
    session = message.additional_kwargs.get("session_id")
    return {"role": message.role.value, **({"session": str(session)} if session else {})}
