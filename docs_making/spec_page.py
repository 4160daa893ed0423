"""The pages reference/specs.md: the run specs that ship with a distribution, each with a link to its file."""

from __future__ import annotations

from pathlib import Path

from agentfw.host import Host

_ROOT = Path(__file__).parents[1]
_ON_GITHUB = "https://github.com/agentfw/agentfw/blob/main"
_HEAD = """\
# Shipped specs

`agentfw run NAME` and `agentfw train NAME` start from the spec of that name. Each link leads to its TOML file, to copy
from: `agentfw run --spec FILE`. [Settings]({settings}) explains the keys.
"""


def spec_page(host: Host, settings: str) -> str:
    """The whole page as Markdown; `settings` is a link to the page of settings."""
    lines = [_HEAD.format(settings=settings)]
    for spec in host.specs().values():
        file = Path(spec.path).relative_to(_ROOT).as_posix()
        lines.append(f"- [`{spec.name}`]({_ON_GITHUB}/{file}): {spec.summary}")
    return "\n".join(lines) + "\n"
