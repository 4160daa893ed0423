"""The specs of a project: files in the folders that its agentfw.toml names, offered as if a plugin shipped them.

Their qualified names begin with `project:`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..boundary.metadata import EntryPoint
from ..hookspecs import NamedSpec
from .plugin_answers import NAME, Offered
from .plugin_record import PluginRecord

if TYPE_CHECKING:
    from .project import ProjectFile

__all__ = ["specs_of"]


def specs_of(project: ProjectFile | None) -> list[Offered[NamedSpec]]:
    if project is None:
        return []
    record = PluginRecord(EntryPoint(project.path.name, "", "project", ""))
    files = [file for folder in project.specs for file in sorted(folder.glob("*.toml")) if NAME.fullmatch(file.stem)]
    return [Offered(NamedSpec(file.stem, str(file), f"from {file.parent}"), record) for file in files]
