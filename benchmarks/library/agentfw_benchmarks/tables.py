"""Tables on the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def print_markdown(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in Markdown."""
    for row in (heads, ["---"] * len(heads), *rows):
        print(f"| {' | '.join(map(str, row))} |")


def print_aligned(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table whose first column is aligned to the left and all others to the right. Rows may be shorter."""
    table = [heads, *rows]
    widths = [max(len(row[place]) for row in table if place < len(row)) for place in range(len(heads))]
    for name, *cells in table:
        print("  ".join([name.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]).rstrip())
