"""Tables on the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .figures import shown

FEW = 8
"""A longer list is no single value."""


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


def print_result(result: object) -> None:
    """Print any result: single values line by line, and records that are alike as a table."""
    if rows := _rows(result):
        heads = list(dict.fromkeys(name for _, row in rows for name in row))
        named = any(name for name, _ in rows)
        cells = [[name] * named + [_text(row.get(head, "")) for head in heads] for name, row in rows]
        print_aligned([""] * named + heads, cells)
    elif isinstance(result, Mapping):
        for name, value in result.items():
            if _is_single(value):
                print(f"{name}: {_text(value)}")
        for name, value in result.items():
            if not _is_single(value):
                print(f"\n{name}")
                print_result(value)
    elif isinstance(result, Sequence):
        for one in result:
            print(one) if isinstance(one, str) else print_result(one)


def _rows(result: object) -> list[tuple[str, Mapping[str, object]]]:
    """Records of single values, with their names if they have some. A few values within one are columns, too."""
    pairs = list(result.items()) if isinstance(result, Mapping) else [("", one) for one in _listed(result)]
    if not all(isinstance(row, Mapping) and not _is_single(row) for _, row in pairs):
        return []
    rows: list[tuple[str, Mapping[str, object]]] = [(name, dict(_columns(row))) for name, row in pairs]
    return rows if all(map(_is_single, (one for _, row in rows for one in row.values()))) else []


def _columns(row: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in row.items():
        if isinstance(value, Mapping) and not _is_single(value) and len(value) <= FEW:
            yield from ((f"{name}, {inner}", one) for inner, one in value.items())
        else:
            yield name, value


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _is_single(value: object) -> bool:
    """Whether it is text or a number, a figure with its interval, or a few of these."""
    if isinstance(value, Mapping):
        return {"mean", "low", "high"} <= value.keys()
    return not isinstance(value, list | tuple) or (len(value) <= FEW and all(map(_is_single, value)))


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return shown(value) + (f", p = {value['p']:.2g}" if "p" in value else "")
    if isinstance(value, list | tuple):
        # Three numbers of which the first is between the others are an estimate with its bounds, as of `triple_of`.
        is_triple = (
            len(value) == 3 and all(isinstance(one, float) for one in value) and value[1] <= value[0] <= value[2]
        )
        return shown(value) if is_triple else ", ".join(map(_text, value))
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
