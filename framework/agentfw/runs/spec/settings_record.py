"""Settings as JSON: what a run folder keeps of them, and how it becomes settings again.

Values come back exactly as they were given. JSON has no infinity and no dates, so what TOML can say and JSON can't is
kept as a piece of TOML. Secrets are masked and never come back from a record: what is of the type `SecretStr`, and
text in a setting whose name says that it is one, such as `token`, unless it is the default.

    >>> to_json({"limit": float("inf"), "path": "notes"})
    {'limit': {'$toml': 'inf'}, 'path': 'notes'}
    >>> from_json({"limit": {"$toml": "inf"}, "path": "notes"})
    {'limit': inf, 'path': 'notes'}
"""

from __future__ import annotations

import datetime
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, Secret, SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from ...boundary.secrets import MASK, secrets_in
from ...settings import input_key

__all__ = ["complete", "from_json", "masked", "masked_keys", "to_json"]

_TAG = "$toml"


def to_json(value: object) -> Any:
    """A value of settings as plain JSON."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_TAG: str(value)}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return {_TAG: value.isoformat()}
    if isinstance(value, (SecretStr, SecretBytes, Secret)):
        return MASK
    if isinstance(value, BaseModel):
        return to_json(dict(value))
    if isinstance(value, Mapping):
        return {str(key): to_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(inner) for inner in value]
    return to_jsonable_python(value, fallback=str)


def from_json(value: Any) -> Any:
    """The value that `to_json` was given."""
    if isinstance(value, dict):
        if value.keys() == {_TAG}:
            return tomllib.loads(f"value = {value[_TAG]}")["value"]
        return {key: from_json(inner) for key, inner in value.items()}
    return [from_json(inner) for inner in value] if isinstance(value, list) else value


def complete(settings: BaseModel | None) -> dict[str, Any]:
    """All settings that are in force, defaults included, as JSON."""
    if settings is None:
        return {}
    fields = type(settings).model_fields
    values = settings.model_dump(round_trip=True, warnings=False)  # round_trip leaves out what is computed
    found = {input_key(name, fields[name]) if name in fields else name: inner for name, inner in values.items()}
    return masked(found, settings)


def masked(given: Mapping[str, Any], settings: BaseModel | None) -> dict[str, Any]:
    """The settings that were given as JSON, without the secrets among them."""
    secrets = set(secrets_in(settings))

    def hide(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: hide(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [hide(inner) for inner in value]
        return MASK if isinstance(value, str) and value in secrets else value

    hidden: dict[str, Any] = hide(to_json(given))
    return hidden


def masked_keys(record: Any, path: str = "") -> Iterator[str]:
    """The dotted keys of a record whose values are masked."""
    if isinstance(record, str) and MASK in record:
        yield path
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(record, Mapping):
        items = record.items()
    elif isinstance(record, list):
        items = enumerate(record)
    for key, inner in items:
        yield from masked_keys(inner, f"{path}.{key}".removeprefix("."))
