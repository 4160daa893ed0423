"""Installs plugins into the environment that agentfw runs in, and uninstalls them.

The command is printed before it runs. Where an installation would not last, a warning names the command that does.

    warning = tool_environment_warning(["agentfw-tea"])
    exit_code = install(["agentfw-tea"], echo=print)

In an environment that pipx or `uv tool` made for agentfw alone, upgrading agentfw recreates the environment and removes
anything installed with pip. There the plugin must be added with the tool itself.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..boundary.metadata import normalise
from ..errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from .host import Host

_APPLICATION = "agentfw"
# Marker files that these tools leave in the root of their environments.
_PIPX_FILE = "pipx_metadata.json"
_UV_FILE = "uv-receipt.toml"


def install_command(requirements: Sequence[str], index: str = "", *, python: str = sys.executable) -> list[str]:
    """The install command for this environment: pip if available, else uv."""
    _check(requirements)
    return [*_installer("install", python=python), *(["--index-url", index] if index else []), *requirements]


def _installer(verb: str, *flags: str, python: str = sys.executable) -> list[str]:
    """The command that installs or uninstalls packages: pip if available, else uv, which never asks."""
    if find_spec("pip") is not None:
        return [python, "-m", "pip", verb, *flags]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", verb, "--python", python]
    raise UsageError(
        f"can't {verb} packages: {python} has no pip, and uv is not installed",
        fix=f"{shlex.quote(python)} -m ensurepip, or install uv, then try again",
    )


def install(requirements: Sequence[str], echo: Callable[[str], object], index: str = "") -> int:
    """Run the command and return its exit code. Its output goes to stderr."""
    command = install_command(requirements, index)
    echo(shlex.join(command))
    # stdout is reserved for data.
    return subprocess.run(command, stdout=sys.__stderr__, check=False).returncode


def uninstall(distributions: Sequence[str], host: Host, echo: Callable[[str], object]) -> int:
    """Uninstall distributions that have plugins, and return the exit code. Nothing else is uninstalled."""
    installed = {record.distribution for record in host.plugins} - {_APPLICATION}
    for name in distributions:
        if normalise(name) not in installed:
            raise UnknownNameError("installed plugin distribution", name, installed)
    command = [*_installer("uninstall", "--yes"), *map(normalise, distributions)]
    echo(shlex.join(command))
    return subprocess.run(command, stdout=sys.__stdout__, check=False).returncode


def tool_environment_warning(requirements: Sequence[str], *, prefix: str = sys.prefix) -> str:
    """A warning if this environment belongs to pipx or `uv tool`. Empty otherwise."""
    root = Path(prefix)
    if (root / _PIPX_FILE).is_file():
        keeper, command = "pipx", ["pipx", "inject", _APPLICATION, *requirements]
    elif (root / _UV_FILE).is_file():
        with_each = [word for requirement in requirements for word in ("--with", requirement)]
        keeper, command = "uv tool", ["uv", "tool", "install", _APPLICATION, *with_each]
    else:
        return ""
    return (
        f"this environment is managed by {keeper}, which removes unknown packages when it upgrades {_APPLICATION}; "
        f"to keep the plugin: {shlex.join(command)}"
    )


def _check(requirements: Sequence[str]) -> None:
    """Reject requirements that pip would read as options."""
    if not requirements:
        raise UsageError("no plugin to install", fix="agentfw plugins install agentfw-tea")
    for requirement in requirements:
        if not requirement.strip() or requirement.startswith("-"):
            raise UsageError(
                f'"{requirement}" is a pip option, not a requirement',
                fix=f"run pip yourself: {shlex.join([sys.executable, '-m', 'pip', 'install'])} {requirement} ...",
            )
