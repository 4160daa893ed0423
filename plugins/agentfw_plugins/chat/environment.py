"""The environment `chat`: a person who talks with the agent in a terminal."""

from __future__ import annotations

from ..gateway.environment import Sessions

__all__ = ["Conversations"]


class Conversations(Sessions):
    """Conversations that a person leads with the agent."""
