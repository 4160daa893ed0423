"""Settings of the tools of an MCP server: how it is started or reached, and which of its tools are offered."""

from __future__ import annotations

import os
import shlex
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from agentfw import Settings
from agentfw.errors import AgentfwError
from agentfw.settings import OPERATIONAL

__all__ = ["MCPSettings"]


class MCPSettings(Settings):
    command: str = Field("", description="Program to start as the server.")
    args: tuple[str, ...] = Field((), description="Arguments of the program.")
    env: dict[str, str] = Field(
        default_factory=dict, description="Environment variables of the program, besides PATH, HOME and the like."
    )
    pass_env: tuple[str, ...] = Field(
        (),
        description="Names of environment variables to pass on, for secrets: `env` is saved in the run's folder.",
    )
    url: str = Field("", description="URL of a running server with streamable HTTP.")
    token_env: str = Field("", description="Environment variable with the bearer token for the URL.")
    longest: int = Field(
        100_000, ge=100, description="Maximum number of characters of an answer; the rest is left out, and it says so."
    )
    timeout: Annotated[float, OPERATIONAL] = Field(60.0, gt=0, description="Timeout of one call in seconds.")
    connect_deadline: Annotated[float, OPERATIONAL] = Field(
        30.0, gt=0, description="Timeout in seconds for the server to start and list its tools."
    )
    only: tuple[str, ...] = Field((), description="Names of the tools to offer; empty for all.")
    prefix: str = Field("", description="Prefix of the tools' names, to keep tools of two servers apart.")

    @model_validator(mode="after")
    def _one_way(self) -> MCPSettings:
        if bool(self.command) == bool(self.url):
            raise ValueError("either command or url must be set, but not both")
        if self.url and urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError("url must start with http:// or https://")
        return self

    @property
    def server(self) -> str:
        """Name of the server in errors."""
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
