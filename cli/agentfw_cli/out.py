"""Everything that the command prints goes through one object.

The one rule: data goes to stdout, everything else to stderr; `--json` turns the data into one JSON value and nothing else
comes to stdout. No colour where nobody sees it: in a pipe, or with NO_COLOR.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import IO, Any

__all__ = ["Out", "width_of"]

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


class Out:
    """Where a command prints."""

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json, self.quiet = json, quiet

    def data(self, value: Any) -> None:
        """The answer, as JSON."""
        import json

        print(json.dumps(value, indent=2, ensure_ascii=False, default=str))

    def line(self, text: str = "") -> None:
        """A line of the answer, for people."""
        print(text)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
        """Aligned columns. On a terminal, the last column wraps into the width that is there."""
        widths = [
            max([width_of(columns[index]), *(width_of(row[index]) for row in rows)]) for index in range(len(columns))
        ]
        last = len(columns) - 1
        if sys.stdout.isatty() and last not in right:
            room = shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * last
            widths[last] = max(20, min(widths[last], room))
        self.line(self.style(_row(columns, widths, right)[0], "dim"))
        for row in rows:
            for text in _row(row, widths, right, wrap=sys.stdout.isatty()):
                self.line(text)

    def note(self, text: str) -> None:
        """Something to know, beside the answer."""
        if not self.quiet:
            print(self.style(text, "dim", stream=sys.stderr), file=sys.stderr)

    def error(self, message: str, mend: str = "") -> None:
        print(self.style("error:", "red", "bold", stream=sys.stderr), message, file=sys.stderr)
        if mend:
            print(self.style("  mend:", "green", "bold", stream=sys.stderr), mend, file=sys.stderr)

    def style(self, text: str, *names: str, stream: IO[str] | None = None) -> str:
        """Text in a style, where there is somebody to see it."""
        if not text or not coloured(stream or sys.stdout):
            return text
        return f"\x1b[{';'.join(_STYLES[name] for name in names)}m{text}\x1b[0m"


def coloured(stream: IO[str]) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width_of(text: str) -> int:
    """How many cells a text takes on a terminal: wide characters take two, marks that combine take none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[int], *, wrap: bool = False) -> list[str]:
    parts = []
    for index, cell in enumerate(cells[:-1]):
        space = " " * (widths[index] - width_of(cell))
        parts.append(space + cell if index in right else cell + space)
    head = "  ".join(parts)
    last = cells[-1]
    if len(cells) - 1 in right:
        last = " " * (widths[-1] - width_of(last)) + last
    lines = [last]
    if wrap and width_of(last) > widths[-1]:
        import textwrap

        lines = textwrap.wrap(last, widths[-1]) or [""]
    indent = " " * (sum(widths[:-1]) + 2 * (len(widths) - 2) if len(widths) > 1 else 0)
    joint = "  " if len(cells) > 1 else ""
    return [(head + joint + lines[0]).rstrip(), *(indent + joint + line for line in lines[1:])]
