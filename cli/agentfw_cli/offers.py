"""Options of `agentfw run` that plugins bring: each hands the whole command line to a command of the plugin.

They are the entry points of the group `agentfw.run`, called ENVIRONMENT.OPTION, such as `calendar.ics`.
"""

from __future__ import annotations

from agentfw.boundary.metadata import EntryPoint, entry_points

__all__ = ["run_offers"]


def run_offers() -> dict[str, list[EntryPoint]]:
    """Who offers each option, by the option."""
    found: dict[str, list[EntryPoint]] = {}
    for entry in sorted(entry_points("agentfw.run"), key=lambda entry: entry.name):
        found.setdefault(f"--{entry.name.partition('.')[2]}", []).append(entry)
    return found
