"""The pages reference/specs.md: the run specs that ship with a distribution, as they are on disk.

Of a spec that only adds or changes a few keys of an earlier one, the page has just these.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from agentfw.host import Host

__all__ = ["spec_page"]

_HEAD = """\
# Shipped specs

`agentfw run NAME` and `agentfw train NAME` start from the spec of that name. [Settings]({settings}) explains the keys.
"""


def spec_page(host: Host, settings: str) -> str:
    """The whole page as Markdown; `settings` is a link to the page of settings."""
    specs = host.specs().values()
    lines = [_HEAD.format(settings=settings), *(f"- [`{spec.name}`](#{spec.name}): {spec.summary}" for spec in specs)]
    whole: dict[str, str] = {}
    for spec in specs:
        text = Path(spec.path).read_text(encoding="utf-8").strip()
        lines += ["", f"## {spec.name}", ""]
        found = {base: _changes(text, other) for base, other in whole.items()}
        changes = {base: change for base, change in found.items() if change is not None}
        near = min(changes, default="", key=lambda base: len(changes[base]))
        if not near:
            whole[spec.name] = text
            lines += ["```toml", text, "```"]
        elif change := changes[near]:
            lines += [f"As [`{near}`](#{near}), but:", "", "```toml", *change, "```"]
        else:
            lines += [f"The same as [`{near}`](#{near})."]
    return "\n".join(lines) + "\n"


def _changes(text: str, base: str) -> list[str] | None:
    """The lines that turn `base` into `text`; None where these are many, or no whole keys."""
    lines = [line for line in text.splitlines() if line not in base.splitlines()]
    before, after = tomllib.loads(base), tomllib.loads(text)
    changed = {key: value for key, value in after.items() if key not in before or before[key] != value}
    if 5 * len(lines) > 2 * len(text.splitlines()) or not before.keys() <= after.keys() or _parsed(lines) != changed:
        return None
    return lines


def _parsed(lines: list[str]) -> Mapping[str, object] | None:
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return None
