"""The numbers of a result, each with its place and the interval it is an estimate in, and what differs between two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_NUMBER = re.compile(r"(?<![\w.,`/-])[-+−]?\d[\d,]*(?:\.\d+)?(?![\w`/]|[.-]\d)")
_INTERVAL = re.compile(r" (?:\[(?P<low>[-+−\d.,]+), (?P<high>[-+−\d.,]+)\]|± (?P<half>[\d.]+))")
_ESTIMATES = ("mean", "median", "estimate")
_BOUNDS = (("low", "high"), ("min", "max"))


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a result."""

    value: float
    judge: str
    """The place of the number that says whether this one is still right: of an interval's bounds, the estimate."""
    low: float | None = None
    high: float | None = None

    def holds(self, now: float) -> bool:
        """Whether a later value is within the interval."""
        return self.low is not None and self.high is not None and self.low <= now <= self.high


@dataclass(frozen=True, slots=True)
class Difference:
    """A number that is another one in a later result."""

    figure: str
    before: float | None
    now: float | None
    within: bool
    """Whether its interval holds the new one."""


def texts_of(text: str) -> list[re.Match[str]]:
    """Where the numbers of a text are."""
    return list(_NUMBER.finditer(text))


def value_of(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


def numbers(value: Any) -> dict[str, Number]:
    """All numbers of a result by their place in it."""
    return dict(_numbers(value, ""))


def differences(before: Any, now: Any) -> list[Difference]:
    """What differs between two results of a program, number by number."""
    old, new = numbers(before), numbers(now)
    found = []
    for name in {**old, **new}:
        one, other = old.get(name), new.get(name)
        if one is None or other is None or one.value != other.value:
            within = one is not None and one.judge in new and old[one.judge].holds(new[one.judge].value)
            found.append(Difference(name, one.value if one else None, other.value if other else None, within))
    return found


def _numbers(value: Any, name: str) -> Iterator[tuple[str, Number]]:
    if isinstance(value, Mapping):
        yield from _of_record(value, name)
    elif isinstance(value, list):
        names = [f"{name}[{place}]" for place in range(len(value))]
        if _is_estimate(value):
            yield from (
                (one, Number(each, names[0], value[1], value[2])) for one, each in zip(names, value, strict=True)
            )
        else:
            for one, each in zip(names, value, strict=True):
                yield from _numbers(each, one)
    elif isinstance(value, str):
        yield from _of_text(value, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, Number(value, name)


def _of_record(value: Mapping[str, Any], name: str) -> Iterator[tuple[str, Number]]:
    """A record with bounds is an estimate with its interval; all others are gone through field by field."""
    bounds = next(((low, high) for low, high in _BOUNDS if low in value and high in value), None)
    estimate = next((key for key in _ESTIMATES if key in value), None)
    for key, one in value.items():
        place = f"{name}.{key}" if name else str(key)
        yield from _of_text(str(key), f"{place} (name)")
        if bounds and estimate and key in (estimate, *bounds) and isinstance(one, int | float):
            yield place, Number(one, f"{name}.{estimate}", value[bounds[0]], value[bounds[1]])
        else:
            yield from _numbers(one, place)


def _of_text(text: str, name: str) -> Iterator[tuple[str, Number]]:
    """The numbers of a text. "0.50 [0.42, 0.58]" and "0.50 ± 0.08" are estimates with an interval."""
    judged: tuple[str, float, float] | None = None
    left = 0  # bounds of the last estimate that are still to come
    for place, found in enumerate(texts_of(text)):
        one, value = f"{name}#{place}", value_of(found[0])
        if left and judged:
            left -= 1
            yield one, Number(value, *judged)
        elif interval := _INTERVAL.match(text, found.end()):
            half = interval["half"]
            low, high = (
                (value - float(half), value + float(half)) if half else map(value_of, interval.group("low", "high"))
            )
            judged, left = (one, low, high), 1 if half else 2
            yield one, Number(value, *judged)
        else:
            yield one, Number(value, one)


def _is_estimate(values: list[Any]) -> bool:
    """Whether these are an estimate and its bounds."""
    return len(values) == 3 and all(isinstance(one, float) for one in values) and values[1] <= values[0] <= values[2]
