"""Filters by metadata, as LangGraph's stores and most vector databases have them.

    >>> fits({"kind": "note", "from": {"year": 2024}}, {"kind": "note", "from.year": {"$gte": 2020}})
    True
    >>> fits({"kind": "note"}, {"kind": {"$in": ["mail", "call"]}})
    False

A filter names fields, with dots for fields of fields. All of them have to fit. A value is compared as it is, or by the
operators $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin and $exists. A field that isn't there fits $ne, $nin and
`{"$exists": False}`. Values of different types are not equal, and neither is above the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import BadInputError

Filter = Mapping[str, Any]

_MISSING = object()
_NAME = re.compile(r"[\w.@/ -]+")


def fits(metadata: Mapping[str, Any], wanted: Filter) -> bool:
    """Whether metadata fits a filter that was checked."""
    return all(
        _OPERATORS[operator](_field(metadata, name), other)
        for name, one in wanted.items()
        for operator, other in (one.items() if _has_operators(one) else (("$eq", one),))
    )


def check_filter(wanted: Any) -> None:
    """Raise BadInputError for a filter that can't be meant."""
    if not isinstance(wanted, Mapping):
        raise BadInputError(f"the filter {wanted!r} is not a dict", fix='pass a dict such as {"kind": "note"}')
    for name, one in wanted.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            problem = f"Invalid filter key: {name!r}"
            raise BadInputError(problem, fix="use letters, digits, _, -, @, / and spaces, with dots between fields")
        for operator, other in one.items() if _has_operators(one) else ():
            if operator not in _OPERATORS:
                raise BadInputError(f"Unsupported operator: {operator}", fix=f"use one of {', '.join(_OPERATORS)}")
            if operator in ("$in", "$nin") and not isinstance(other, (list, tuple, set, frozenset)):
                raise BadInputError(f"{operator} needs a list, not {other!r}", fix=f'pass {{"{operator}": [...]}}')


def _field(value: Any, name: str) -> Any:
    """Return a field by its name, or by the names on the way to it."""
    if isinstance(value, Mapping) and name in value:
        return value[name]
    head, dot, rest = name.partition(".")
    if not dot or not isinstance(value, Mapping) or head not in value:
        return _MISSING
    return _field(value[head], rest)


def _has_operators(wanted: Any) -> bool:
    return isinstance(wanted, Mapping) and bool(wanted) and all(str(name).startswith("$") for name in wanted)


def _equal(value: Any, other: Any) -> bool:
    # True is 1 in Python, and isn't in JSON.
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(value: Any, other: Any) -> bool:
        try:
            return bool(compare(value, other))
        except TypeError:
            return False

    return compared


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": _equal,
    "$ne": lambda value, other: not _equal(value, other),
    "$gt": _ordered(lambda value, other: value > other),
    "$gte": _ordered(lambda value, other: value >= other),
    "$lt": _ordered(lambda value, other: value < other),
    "$lte": _ordered(lambda value, other: value <= other),
    "$in": lambda value, others: any(_equal(value, other) for other in others),
    "$nin": lambda value, others: not any(_equal(value, other) for other in others),
    "$exists": lambda value, wanted: (value is not _MISSING) == bool(wanted),
}
