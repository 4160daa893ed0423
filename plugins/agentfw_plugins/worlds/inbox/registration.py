"""Registers the inbox."""

from __future__ import annotations

from agentfw import Component

from ...registration import Registration

REGISTRATION = Registration(
    environments=[
        Component(
            "inbox",
            "agentfw_plugins.worlds.inbox.environment:Inbox",
            "Mails arrive while the agent is writing a document",
            settings="agentfw_plugins.worlds.inbox.inbox_settings:InboxSettings",
        ),
    ],
)
