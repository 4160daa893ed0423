"""Checks of what a caller passes in: names, texts, numbers, skill ids, vectors, and filters by metadata.

Input is stored exactly as it was given, or rejected with a BadInputError. No name ever becomes part of a statement or a
pattern, so quotes, `%` and `_` are allowed.

    >>> check_name("user", "O'Brien 100%")
    "O'Brien 100%"
    >>> check_name("user", "ana\\n")
    Traceback (most recent call last):
    ...
    agentfw_memory.errors.BadInputError: the user 'ana\\n' contains a control character

A filter is as LangGraph's stores and most vector databases have it.

    >>> fits({"kind": "note", "from": {"year": 2024}}, {"kind": "note", "from.year": {"$gte": 2020}})
    True
    >>> fits({"kind": "note"}, {"kind": {"$in": ["mail", "call"]}})
    False

It names fields, with dots for fields of fields. All of them have to fit. A value is compared as it is, or by the
operators $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin and $exists. A field that isn't there fits $ne, $nin and
`{"$exists": False}`. Values of different types are not equal, and neither is above the other.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import BadInputError, UnknownSkillError
from .records import Float32Array, skill_number

MAXIMUM_NAME_LENGTH = 200
MAXIMUM_METADATA = 16_000_000  # characters of a skill's metadata as JSON. A store reads it with the skill
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character outside the basic plane. Alone it can't be encoded as UTF-8."""
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_DATED = -62_135_596_800, 253_402_300_800  # seconds since 1970 from the year 1 up to 10,000, which have a date
_FIELD = re.compile(r"[\w.@/ -]+")
_MISSING = object()
_SURROGATE_FIX = "remove it; it comes from text that was cut, or decoded with surrogatepass or surrogateescape"

Filter = Mapping[str, Any]


def check_name(what: str, name: object) -> str:
    """Check the name of a tenant, user, tool, scenario or trajectory."""
    if not isinstance(name, str) or not name.strip():
        problem = f"name of the {what} is empty" if isinstance(name, str) else f"{what} {name!r} is not a string"
        raise BadInputError(f"the {problem}", fix=f"pass the name of the {what} as a string")
    shown = name if len(name) <= 40 else name[:40] + "..."
    if len(name) > MAXIMUM_NAME_LENGTH:
        problem, fix = f"has {len(name)} characters", f"use at most {MAXIMUM_NAME_LENGTH} characters"
    elif _CONTROL.search(name):
        problem, fix = "contains a control character", "use printable characters only"
    elif _SURROGATE.search(name):
        problem, fix = "contains half a character", _SURROGATE_FIX
    else:
        return name
    raise BadInputError(f"the {what} {shown!r} {problem}", fix=fix)


def check_names(what: str, names: Iterable[str]) -> tuple[str, ...]:
    """Check names and drop repeated ones."""
    if isinstance(names, str):
        raise BadInputError(f"the {what}s are a single string, {names!r}", fix="pass a list of names")
    return tuple(dict.fromkeys(check_name(what, name) for name in names))


def check_text(
    what: str, text: object, maximum: int, *, fix: str = "shorten it, or raise the setting longest_text"
) -> str:
    if not isinstance(text, str):
        raise BadInputError(f"the {what} is of type {type(text).__name__}, not a string", fix="pass a string")
    if not text.strip():
        raise BadInputError(f"the {what} is empty", fix="pass some text")
    if len(text) > maximum:
        raise BadInputError(f"the {what} has {len(text)} characters, more than the maximum of {maximum}", fix=fix)
    if "\x00" in text:
        raise BadInputError(f"the {what} contains a NUL character", fix="remove it")
    if half := _SURROGATE.search(text):
        raise BadInputError(f"the {what} contains half a character, {half[0]!r} at {half.start()}", fix=_SURROGATE_FIX)
    return text


def storable(text: str, longest: int) -> str:
    """Return a text cut to a maximum length, with marks in the place of characters that can't be stored."""
    return _UNSTORABLE.sub("\ufffd", text)[:longest]


def check_metadata(metadata: object) -> str:
    """Return metadata as JSON, or nothing for none."""
    if not isinstance(metadata, Mapping) or not all(isinstance(name, str) for name in metadata):
        raise BadInputError(f"the metadata is a {type(metadata).__name__}", fix="pass a dict with names as its keys")
    if not metadata:
        return ""
    try:
        text = json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False)
        text = _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInputError(f"the metadata can't be JSON: {error}", fix="pass plain JSON values") from None
    return check_text("metadata", text, MAXIMUM_METADATA, fix="keep large values elsewhere, and their place here")


def check_number(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise BadInputError(f"the {what} {value!r} is not a finite number", fix=f"pass a finite number as {what}")
    return float(value)


def check_time(what: str, value: object) -> float:
    if not _DATED[0] <= (when := check_number(what, value)) < _DATED[1]:
        problem = f"the {what} {value!r} is not in the years 1 to 9999"
        raise BadInputError(problem, fix="pass seconds since 1970")
    return when


def check_skill(skill: object) -> int:
    found = skill_number(skill) if isinstance(skill, str) else None
    if found is None:
        raise UnknownSkillError(skill)
    return found


def check_vectors(vectors: Any, texts: Sequence[str], dimensions: int | None) -> Float32Array:
    """Check what an embedder returned for these texts, and scale the rows to unit length. Without a number of
    dimensions, they may have any."""
    try:
        rows = np.array(vectors, np.float32)
    except (TypeError, ValueError) as error:
        fix = "let the embedder return one row of numbers per text, always of the same length"
        raise BadInputError(f"the embedder returned no rows of numbers: {error}", fix=fix) from error
    if dimensions is None:
        dimensions = (rows.shape[1] if rows.ndim == 2 else 1) or 1
    if rows.shape != (len(texts), dimensions):
        problem = f"the embedder returned an array of shape {rows.shape} for {len(texts)} texts"
        raise BadInputError(problem, fix=f"return an array of shape {(len(texts), dimensions)}, one row per text")
    if not np.isfinite(rows).all():
        text = texts[int(np.argmin(np.isfinite(rows).all(1)))]
        problem = f"the embedder returned NaN or infinity for {text[:60]!r}"
        raise BadInputError(problem, fix="fix the embedder; nothing was stored")
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-12), np.float32)


def check_filter(wanted: Any) -> None:
    """Raise BadInputError for a filter that can't be meant."""
    if not isinstance(wanted, Mapping):
        raise BadInputError(f"the filter {wanted!r} is not a dict", fix='pass a dict such as {"kind": "note"}')
    for name, one in wanted.items():
        if not isinstance(name, str) or not _FIELD.fullmatch(name):
            problem = f"Invalid filter key: {name!r}"
            raise BadInputError(problem, fix="use letters, digits, _, -, @, / and spaces, with dots between fields")
        for operator, other in one.items() if _has_operators(one) else ():
            if operator not in _OPERATORS:
                raise BadInputError(f"Unsupported operator: {operator}", fix=f"use one of {', '.join(_OPERATORS)}")
            if operator in ("$in", "$nin") and not isinstance(other, (list, tuple, set, frozenset)):
                raise BadInputError(f"{operator} needs a list, not {other!r}", fix=f'pass {{"{operator}": [...]}}')


def fits(metadata: Mapping[str, Any], wanted: Filter) -> bool:
    """Whether metadata fits a filter that was checked."""
    return all(
        _OPERATORS[operator](_field(metadata, name), other)
        for name, one in wanted.items()
        for operator, other in (one.items() if _has_operators(one) else (("$eq", one),))
    )


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
