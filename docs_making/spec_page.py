"""The pages reference/specs.md: the run specs that ship with a distribution, as they are on disk."""

from __future__ import annotations

from pathlib import Path

from agentfw.host import Host

__all__ = ["spec_page"]

_HEAD = """\
# Shipped specs

A spec is a TOML file that says what a run or a training does. `agentfw run NAME` and `agentfw train NAME` start from
the spec of that name. Options and `--set` change single values. [Settings]({settings}) explains every key.
"""


def spec_page(host: Host, settings: str) -> str:
    """The whole page as Markdown; `settings` is a link to the page of settings."""
    specs = host.specs().values()
    lines = [_HEAD.format(settings=settings), "| spec | what it does |", "| --- | --- |"]
    lines += [f"| [`{spec.name}`](#{spec.name}) | {spec.summary} |" for spec in specs]
    for spec in specs:
        text = Path(spec.path).read_text(encoding="utf-8").strip()
        lines += ["", f"## {spec.name}", "", f"{spec.summary.rstrip('.')}.", "", "```toml", text, "```"]
    return "\n".join(lines) + "\n"
