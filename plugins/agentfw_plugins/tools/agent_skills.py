"""The tool `skills`: folders of Agent Skills, and Agent Plugins with the MCP servers that they name.

An agent is told the name and the description of each skill. `use_skill` gives it the instructions of one, and
`read_skill_file` a file that these speak of. An Agent Plugin is a folder with a plugin.json, with skills in `skills/`
and servers in `mcp.json`; the tools of a server are named SERVER_TOOL.

Nothing of a folder is shown to a model, and no server of it is started, before a person has allowed the folder
(`agentfw.host.trust`). What a distribution ships needs no permission: whoever installs it trusts its code.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field, ValidationError

from agentfw import Settings, Tool, Toolbox
from agentfw.boundary.metadata import entry_points
from agentfw.errors import InterventionRefused, UnknownNameError, UsageError, known_names
from agentfw.host.trust import require_trusted_folder
from agentfw.tool import FunctionTool
from agentfw_memory import BadInputError
from agentfw_memory.graph.exchange.skill_folders import AgentSkill, read_skill_folders

from .mcp import MCPToolbox
from .mcp_link import MCPSettings

GROUP = "agentfw.skills"
_PLUGIN_FILES = ("plugin.json", ".claude-plugin/plugin.json")
_SERVER_FILES = ("mcp.json", ".mcp.json")
_ROOTS = ("${PLUGIN_ROOT}", "${CLAUDE_PLUGIN_ROOT}")  # what stands in mcp.json for the folder of the plugin


class AgentSkillsSettings(Settings):
    folders: tuple[str, ...] = Field(
        min_length=1, description="Folders of skills or Agent Plugins, or names under which distributions ship some."
    )


class AgentSkills(Toolbox):
    """Skills as tools, with the servers of the plugins that they are in."""

    def __init__(self, settings: AgentSkillsSettings) -> None:
        self.skills: dict[str, AgentSkill] = {}
        self._servers: list[MCPToolbox] = []
        for name in settings.folders:
            folder = _found(name)
            is_plugin = any((folder / file).is_file() for file in _PLUGIN_FILES)
            place = folder / "skills" if is_plugin else folder
            try:
                skills = read_skill_folders(place) if place.is_dir() or not is_plugin else []
            except BadInputError as error:
                raise UsageError(error.message, fix=error.fix) from error
            for skill in skills:
                if skill.name in self.skills:
                    both = f"{self.skills[skill.name].folder} and {skill.folder}"
                    raise UsageError(f'two skills are called "{skill.name}": {both}', fix="leave one of them out")
                self.skills[skill.name] = skill
            self._servers += [MCPToolbox(server) for server in _servers_of(folder)]

    async def open(self) -> Sequence[Tool]:
        tools: list[Tool] = []
        for server in self._servers:
            tools += await server.open()
        if self.skills:
            use = FunctionTool(self._use, name="use_skill")
            lines = [f"- {skill.name}: {skill.description}" for skill in self.skills.values()]
            words = "Returns the instructions of a skill. Use the one that fits the task, before you begin.\n"
            use.action = replace(use.action, description=words + "\n".join(lines))
            tools.append(use)
        if any(skill.files() for skill in self.skills.values()):
            tools.append(FunctionTool(self._read, name="read_skill_file"))
        return tools

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    def _use(self, name: str) -> str:
        skill = self._skill(name)
        files = skill.files()
        return skill.body + (f"\n\nFiles of this skill: {', '.join(files)}" if files else "")

    def _read(self, skill: str, file: str) -> str:
        """Returns a file that the instructions of a skill speak of."""
        found = self._skill(skill)
        if file not in found.files():
            raise InterventionRefused(
                f"{skill} has no file {file[:100]}; {known_names('files', file[:100], found.files())}"
            )
        return (found.folder / file).read_text("utf-8", errors="replace")

    def _skill(self, name: str) -> AgentSkill:
        if name not in self.skills:
            raise InterventionRefused(
                f'no skill is called "{name[:100]}"; {known_names("skills", name[:100], self.skills)}'
            )
        return self.skills[name]


def _found(name: str) -> Path:
    """The folder of a path that a person has allowed, or that a distribution ships under this name."""
    if Path(name).is_dir():
        require_trusted_folder(Path(name))
        return Path(name)
    shipped = {entry.name: entry for entry in entry_points(GROUP)}
    folder = shipped[name].folder() if name in shipped else None
    if folder is None:
        raise UnknownNameError("folder of skills", name, shipped)
    return folder


def _servers_of(folder: Path) -> list[MCPSettings]:
    """The servers that the mcp.json of an Agent Plugin names."""
    file = next((folder / name for name in _SERVER_FILES if (folder / name).is_file()), None)
    if file is None:
        return []
    fix = 'write it as {"mcpServers": {"NAME": {"command": "...", "args": []}}}'
    try:
        text = file.read_text("utf-8-sig")
        for root in _ROOTS:
            text = text.replace(root, json.dumps(str(folder.absolute()))[1:-1])
        whole = json.loads(text)
        made: list[MCPSettings] = []
        for name, about in whole.get("mcpServers", whole).items():
            known = {key: about[key] for key in ("command", "args", "url") if key in about}
            env = {"PYTHONDONTWRITEBYTECODE": "1", **about.get("env", {})}  # the folder stays as it was allowed
            made.append(MCPSettings(**known, env=env, prefix=f"{name}_"))
        return made
    except ValidationError as error:
        raise UsageError(f"{file}: {error.errors()[0]['msg']}", fix=fix) from error
    except (ValueError, AttributeError, TypeError) as error:
        raise UsageError(f"{file} can't be read: {error}", fix=fix) from error
