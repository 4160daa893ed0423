"""The plugin `papers`, gathered from the registrations of its worlds."""

from __future__ import annotations

from agentfw_plugins.registration import FolderPlugin

plugin = FolderPlugin("agentfw_papers")
