"""The plugin `papers`, gathered from the registrations of its worlds."""

from __future__ import annotations

from agentfw_plugins.registration import FolderPlugin

__all__ = ["plugin"]

plugin = FolderPlugin("agentfw_papers")
