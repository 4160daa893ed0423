"""Registers the environment of `agentfw chat` and the spec that it starts from."""

from __future__ import annotations

from pathlib import Path

from agentfw import Component
from agentfw.hookspecs import NamedSpec

from ..registration import Registration

REGISTRATION = Registration(
    environments=[
        Component("chat", "agentfw_plugins.chat.environment:Conversations", "A person who talks with `agentfw chat`"),
    ],
    specs=[
        NamedSpec(
            "chat", str(Path(__file__).parent / "specs" / "chat.toml"), "agentfw chat: a conversation in the terminal"
        ),
    ],
)
