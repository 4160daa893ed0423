"""Registers a tool. It is written for a plugin API that doesn't exist yet, so the tool is never made."""

from __future__ import annotations

from agentfw import Component, hookimpl

AGENTFW_PLUGIN_API = 3


@hookimpl
def agentfw_tools() -> list[Component]:
    return [Component("weekday", "agentfw_weekday.weekday:Weekday", "Tells the weekday of a date")]
