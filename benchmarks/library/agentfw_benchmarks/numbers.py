"""The numbers of a result, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_NUMBER = re.compile(r"(?<![\w.,`/-])[-+−]?\d[\d,]*(?:\.\d+)?(?![\w`/]|[.-]\d)")


def texts_of(text: str) -> list[re.Match[str]]:
    """Where the numbers of a text are."""
    return list(_NUMBER.finditer(text))


def value_of(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def numbers(value: Any) -> dict[str, float]:
    """All numbers of a result by their place in it, also those in its texts and keys."""
    return dict(_numbers(value, ""))


def _numbers(value: Any, name: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            place = f"{name}.{key}" if name else str(key)
            yield from _numbers(str(key), f"{place} (name)")
            yield from _numbers(one, place)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _numbers(one, f"{name}[{number}]")
    elif isinstance(value, str):
        yield from ((f"{name}#{place}", value_of(found[0])) for place, found in enumerate(texts_of(value)))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value
