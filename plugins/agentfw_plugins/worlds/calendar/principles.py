"""Principles: what a user may care about, as conditions on the visible tags of an event.

A principle depends on the tags alone, so everything that decides a round can be read from its lines.

    >>> due_today = Principle("due_today", "due today", {"due": ("today",)}, (), ("it's due",), ("so what",))
    >>> due_today.triggers({"due": "today"}), due_today.triggers({"due": "week"})
    (True, False)

In YAML, `when` is a table of conditions that must all hold: `due: today`, `hold: [fixed, must]`, `who: client`
(somebody like that comes), `size: 2`, `minutes: {at_least: 90}`. Keys are those of the line, with `minutes` for `min`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .event_attributes import CHOICES, RELATIONS
from .yaml_lines import Sheet, read_file

__all__ = ["Principle", "Vocabulary", "read_principles", "vocabulary"]

_NUMBERS = {"size": ("size", 1, 60), "minutes": ("min", 5, 480)}


@dataclass(frozen=True, slots=True)
class Principle:
    """One thing that may matter to a user, and how people express it."""

    name: str
    label: str
    values: Mapping[str, tuple[str, ...]]
    """Tags and their allowed values; for `who`, one of these relations must attend."""
    bounds: tuple[tuple[str, int, int], ...]
    """Numeric tags with their minimum and maximum."""
    praise: tuple[str, ...]
    complaint: tuple[str, ...]

    def triggers(self, tags: Mapping[str, str]) -> bool:
        for tag, wanted in self.values.items():
            if tag == "who":
                if not any(relation in wanted for relation in tags["who"].split(",")):
                    return False
            elif tags[tag] not in wanted:
                return False
        return all(least <= int(tags[tag]) <= most for tag, least, most in self.bounds)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The vocabulary that all organisations share."""

    principles: Mapping[str, Principle]
    first_names: tuple[str, ...]
    last_names: tuple[str, ...]


@cache
def vocabulary() -> Vocabulary:
    table = read_file(Path(__file__).parent / "vocabulary.yaml").table(("principles", "first_names", "last_names"))
    return Vocabulary(
        read_principles(table["principles"]), table["first_names"].texts(least=2), table["last_names"].texts(least=2)
    )


def read_principles(sheet: Sheet) -> dict[str, Principle]:
    return {name: _principle(name, value) for name, value in sheet.entries()}


def _principle(name: str, sheet: Sheet) -> Principle:
    table = sheet.table(("label", "when", "for", "against"))
    values: dict[str, tuple[str, ...]] = {}
    bounds: list[tuple[str, int, int]] = []
    conditions = table["when"].entries()
    if not conditions:
        raise table["when"].error("must have at least one condition; it would hold for every event")
    for key, value in conditions:
        if key in _NUMBERS:
            bounds.append(_bound(key, value))
        elif key == "who":
            values["who"] = _some(value, (*RELATIONS, "nobody"))
        elif key in CHOICES:
            values[key] = _some(value, CHOICES[key])
        else:
            known = ", ".join((*_NUMBERS, "who", *CHOICES))
            raise value.error(f"events have no such attribute; there is: {known}")
    return Principle(
        name,
        table["label"].text(longest=30),
        values,
        tuple(bounds),
        table["for"].texts(longest=120),
        table["against"].texts(longest=120),
    )


def _some(sheet: Sheet, choices: Sequence[str]) -> tuple[str, ...]:
    """One value or a list of them."""
    if sheet.is_list:
        return tuple(item.one_of(choices) for item in sheet.items(least=1))
    return (sheet.one_of(choices),)


def _bound(key: str, sheet: Sheet) -> tuple[str, int, int]:
    tag, low, high = _NUMBERS[key]
    if not sheet.is_table:
        value = sheet.integer(low, high)
        return tag, value, value
    table = sheet.table(optional=("at_least", "at_most"))
    if not table:
        raise sheet.error("needs at_least, at_most or both")
    least = table["at_least"].integer(low, high) if "at_least" in table else low
    most = table["at_most"].integer(low, high) if "at_most" in table else high
    if least > most:
        raise sheet.error(f"no event can have at least {least} and at most {most}")
    return tag, least, most
