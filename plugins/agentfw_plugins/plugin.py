"""The plugin `builtin`: everything that ships with agentfw."""

from __future__ import annotations

from agentfw import hookimpl
from agentfw.hookspecs import KnownPlugin

from .registration import FolderPlugin

__all__ = ["plugin"]


class _Builtin(FolderPlugin):
    @hookimpl
    def agentfw_known_plugins(self) -> list[KnownPlugin]:
        from .known_plugins import CALENDAR, PAPERS

        return [CALENDAR, PAPERS]


plugin = _Builtin("agentfw_plugins")
