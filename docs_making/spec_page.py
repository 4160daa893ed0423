"""The page docs/reference/specs.md: the run specs that ship with agentfw, as they are on disk."""

from __future__ import annotations

from pathlib import Path

from agentfw.host import Host

__all__ = ["spec_page"]

_HEAD = """\
# Shipped specs

A spec is a TOML file that says what a run or a training does. `agentfw run NAME` and `agentfw train NAME` start from
the spec of that name. Options and `--set` change single values. [Settings](settings.md) explains every key.
"""


def spec_page(host: Host) -> str:
    """The whole page as Markdown."""
    specs = host.specs().values()
    lines = [_HEAD, "| spec | what it does |", "| --- | --- |"]
    lines += [f"| [`{spec.name}`](#{spec.name}) | {spec.summary} |" for spec in specs]
    for spec in specs:
        text = Path(spec.path).read_text(encoding="utf-8").strip()
        lines += ["", f"## {spec.name}", "", f"{spec.summary.rstrip('.')}.", "", "```toml", text, "```"]
    return "\n".join(lines) + "\n"
