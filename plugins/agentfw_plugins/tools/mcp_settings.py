"""Settings of the tools of an MCP server: how it is started or reached, and which of its tools are offered."""

from __future__ import annotations

import os
import shlex
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from agentfw import Settings
from agentfw.errors import AgentfwError

__all__ = ["MCPSettings"]


class MCPSettings(Settings):
    command: str = Field("", description="The program that is the server, when it is to be started here.")
    args: tuple[str, ...] = Field((), description="What the program is started with.")
    env: dict[str, str] = Field(
        default_factory=dict, description="Environment variables of the program; it has PATH, HOME and the like anyway."
    )
    pass_env: tuple[str, ...] = Field(
        (), description="Environment variables to hand on by name: a secret in env would end up in the run's folder."
    )
    url: str = Field("", description="Where the server is, when it runs already and speaks streamable HTTP.")
    token_env: str = Field("", description="The environment variable with the bearer token that the URL wants.")
    timeout: float = Field(60.0, gt=0, description="Seconds for one call, so that a slow tool can't stop an episode.")
    connect_deadline: float = Field(30.0, gt=0, description="Seconds for the server to start and to list its tools.")
    only: tuple[str, ...] = Field(
        (), description="Which of its tools to offer: few are easier to choose from than many."
    )
    prefix: str = Field("", description="Put before the tools' names, to tell two servers' tools of one name apart.")

    @model_validator(mode="after")
    def _one_way(self) -> MCPSettings:
        if bool(self.command) == bool(self.url):
            raise ValueError("either command or url must be set, and not both")
        if self.url and urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError("url must begin with http:// or https://")
        return self

    @property
    def server(self) -> str:
        """How errors call the server."""
        return self.url or shlex.join([self.command, *self.args])

    def handed_on(self) -> dict[str, str]:
        """The values of the variables that `pass_env` and `token_env` name."""
        names = [*self.pass_env, *([self.token_env] if self.token_env else [])]
        if missing := [name for name in names if not os.environ.get(name)]:
            raise AgentfwError(
                f"the MCP server {self.server} needs the environment variable {', '.join(missing)}",
                fix=f"export {missing[0]}=...",
            )
        return {name: os.environ[name] for name in names}
