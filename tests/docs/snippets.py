"""Finds the code blocks of a Markdown page, and what the page says about running them.

A comment directly above a block can change how it is run:

    <!-- not run: REASON -->   the block is skipped, and the test report says why
    <!-- needs: MODULE ... --> the block, and all that follow it, are skipped where a module isn't installed
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
BESIDE = {"agentfw_calendar": ROOT / "plugins" / "calendar", "agentfw_papers": ROOT / "plugins" / "papers"}
"""The distributions beside agentfw: the package of each, and its folder."""
PAGES = [
    page
    for page in [
        *[ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))],
        *[
            page
            for folder in BESIDE.values()
            for page in (folder / "README.md", *sorted((folder / "docs").rglob("*.md")))
        ],
    ]
    if page.is_file()
]

_BLOCK = re.compile(
    r"""^(?P<comments>(?:<!--.*?-->\n+)*)
    ```(?P<language>\w*)(?:[ ]title="(?P<title>.*?)")?\n(?P<code>.*?)^```$
    (?:\n\n```text\n(?P<output>.*?)^```$)?""",
    re.S | re.M | re.X,
)
_MARK = re.compile(r"<!-- (?P<kind>not run|needs): (?P<value>.*?) -->", re.S)


class Snippet(NamedTuple):
    """One code block of a page."""

    page: str
    line: int
    language: str
    title: str
    """The file that the block is, where it says so."""
    code: str
    output: str | None
    """What the block prints, where a block of text follows it."""
    not_run: str
    """Why it can't run in a test; empty for one that does."""
    needs: tuple[str, ...]
    """Modules without which the rest of the page can't run."""

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def snippets(page: Path) -> list[Snippet]:
    """The blocks of a page that are code, in their order."""
    text = page.read_text("utf-8")
    return [_snippet(page, text, match) for match in _BLOCK.finditer(text) if match["language"] != "text"]


def _snippet(page: Path, text: str, match: re.Match[str]) -> Snippet:
    marks = {mark["kind"]: " ".join(mark["value"].split()) for mark in _MARK.finditer(match["comments"])}
    line = text.count("\n", 0, match.start("language")) + 1
    name = page.relative_to(ROOT).as_posix()
    return Snippet(
        page=name,
        line=line,
        language=match["language"],
        title=match["title"] or "",
        code=match["code"],
        output=match["output"],
        not_run=marks.get("not run", ""),
        needs=tuple(marks.get("needs", "").split()),
    )
