"""Installs plugins into the environment that agentfw runs in.

The command is shown before it is run. Where its effect would be lost later, a warning names the command to use instead.

    warning = tool_environment_warning(["agentfw-tea"])
    exit_code = install(["agentfw-tea"], echo=print)

In an environment that pipx or `uv tool` made for agentfw alone, an upgrade of agentfw makes everything anew and drops
what was installed beside it; these tools must be told themselves.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from ..errors import UsageError

__all__ = ["install", "install_command", "tool_environment_warning"]

_APPLICATION = "agentfw"
# Files that these tools leave in the root of each environment that they make.
_PIPX_FILE = "pipx_metadata.json"
_UV_FILE = "uv-receipt.toml"


def install_command(requirements: Sequence[str], *, python: str = sys.executable) -> list[str]:
    """The command that installs into this environment: pip's where there is a pip, and else uv's."""
    _check(requirements)
    if find_spec("pip") is not None:
        return [python, "-m", "pip", "install", *requirements]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--python", python, *requirements]
    raise UsageError(
        f"nothing here can install packages: {python} has no pip, and there is no uv",
        fix=f"{shlex.quote(python)} -m ensurepip, or install uv, and then again",
    )


def install(requirements: Sequence[str], echo: Callable[[str], object]) -> int:
    """Run the command and return its exit code; what it prints goes to stderr."""
    command = install_command(requirements)
    echo(shlex.join(command))
    # Its words are no data of ours: stdout stays free for that.
    return subprocess.run(command, stdout=sys.__stderr__, check=False).returncode


def tool_environment_warning(requirements: Sequence[str], *, prefix: str = sys.prefix) -> str:
    """What to say where this environment belongs to pipx or `uv tool`; empty where it doesn't."""
    root = Path(prefix)
    if (root / _PIPX_FILE).is_file():
        keeper, command = "pipx", ["pipx", "inject", _APPLICATION, *requirements]
    elif (root / _UV_FILE).is_file():
        with_each = [word for requirement in requirements for word in ("--with", requirement)]
        keeper, command = "uv tool", ["uv", "tool", "install", _APPLICATION, *with_each]
    else:
        return ""
    return (
        f"this environment is kept by {keeper}, which drops what it doesn't know of when it upgrades {_APPLICATION}; "
        f"to keep the plugin: {shlex.join(command)}"
    )


def _check(requirements: Sequence[str]) -> None:
    """A requirement that looks like an option would be one."""
    if not requirements:
        raise UsageError("nothing to install was named", fix="agentfw plugins install agentfw-tea")
    for requirement in requirements:
        if not requirement.strip() or requirement.startswith("-"):
            raise UsageError(
                f'"{requirement}" is no requirement but an option of pip',
                fix=f"run pip yourself: {shlex.join([sys.executable, '-m', 'pip', 'install'])} {requirement} ...",
            )
