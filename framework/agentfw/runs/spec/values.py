"""The plain values of a spec: what a file and `--set` say, and what run.json keeps.

A spec is put together from several layers, so each is read without being complete. Unlike a `RunSpec`, a component may
be its name alone. JSON has no infinity and no dates, so what TOML can say and JSON can't is kept as a piece of TOML.

    >>> to_json({"limit": float("inf"), "path": "notes"})
    {'limit': {'$toml': 'inf'}, 'path': 'notes'}
    >>> from_json({"limit": {"$toml": "inf"}, "path": "notes"})
    {'limit': inf, 'path': 'notes'}
"""

from __future__ import annotations

import copy
import datetime
import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Secret, SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from ...boundary.secrets import MASK
from ...errors import SettingsError, UnknownNameError, UsageError
from ...host.offers import whole_name
from ...host.trust import require_trusted
from ...printing.out import docs_page, shown_path
from .run_spec import COMPONENTS, LISTS, label_of_name

_LARGEST_FILE = 1_000_000
_FORMAT = f"see {docs_page('docs/reference/settings.md')}"
_SINGLE = tuple(key for key in COMPONENTS if key not in LISTS.values())


def read_spec(path: Path, *, check: bool = True) -> dict[str, Any]:
    """The plain values of a spec file. They aren't validated yet, because the command line may still add to them.

    What it wants beyond names and numbers, a person has to allow first, unless a distribution ships it.
    """
    shown = shown_path(path)
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
        if len(content) > _LARGEST_FILE:
            raise UsageError(f"{shown} has more than {_LARGEST_FILE:,} bytes, so it is no spec", fix="pass a spec file")
        values = relative_to(path.parent, written_values(tomllib.loads(content.decode("utf-8-sig"))))
    except FileNotFoundError:
        raise UsageError(f"there is no spec file {shown}", fix=_FORMAT) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"can't read {shown}: {error}", fix="a spec is a TOML file in UTF-8") from None
    except RecursionError:
        raise SettingsError(f"{shown} nests its values too deeply", fix=_FORMAT) from None
    except ValueError as error:  # not TOML, or a number of a million digits
        raise SettingsError(f"{shown} isn't valid TOML: {error}", fix=_FORMAT) from None
    if check:
        require_trusted(path, values)
    return values


def written_values(values: Any) -> Any:
    """What the values of a TOML file mean. TOML has no null, so it is written as a table: `{ null = true }`."""
    if isinstance(values, Mapping):
        return None if values == {"null": True} else {key: written_values(value) for key, value in values.items()}
    return [written_values(value) for value in values] if isinstance(values, list) else values


def relative_to(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The values of a spec in a folder: the files of components that they name are below it."""

    def placed(choice: Any) -> Any:
        if isinstance(choice, dict) and "name" in choice:
            return {**choice, "name": placed(choice["name"])}
        if isinstance(choice, list):
            return [placed(each) for each in choice]
        return whole_name(choice, folder) if isinstance(choice, str) else choice

    return {key: placed(value) if key in COMPONENTS else value for key, value in values.items()}


def apply_assignments(values: Mapping[str, Any], assignments: Mapping[str, Any]) -> dict[str, Any]:
    """Apply `--set` assignments to the plain values of a spec.

    `seed=3` and `sampling.top_p=0.9` set keys of the spec. `environment.rate=0.5` and `policy.tokens=4` are settings of
    these components, and so are those of `optimizer`, `learner` and `teacher`. Where a run has several components of a
    kind, their names are part of the key: `memory.NAME.key`, `tool.NAME.key`, `reward.NAME.key` (or
    `reward.NAME.weight`), `tracker.NAME.key` and `model.NAME.key`. A tool with an alias goes by that. The name may also
    be written where there is no choice, as in `policy.scripted.tokens=4`, and be left out where one memory is selected.

    >>> apply_assignments({"environment": "inbox"}, {"environment": {"rate": 0.5}, "seed": 3})
    {'environment': {'name': 'inbox', 'settings': {'rate': 0.5}}, 'seed': 3}
    """
    result = dict(values)
    for key, value in assignments.items():
        singular = next((one for one, several in LISTS.items() if several == key), "")
        if key in _SINGLE:
            choice = _table(result.get(key, {}))
            if isinstance(value, Mapping):
                named = _by_name(value, [label_of(choice)])
                if isinstance(inner := named.pop(label_of(choice), None), Mapping):
                    value = {**named, **inner}
            result[key] = _with_settings(choice, value, key, ())
        elif key in LISTS:
            result[LISTS[key]] = _assign_to_one(list(listed(result.get(LISTS[key], ()))), key, value)
        elif singular and isinstance(value, Mapping):
            raise SettingsError(f"--set {key}... names no component", fix=f"name it: --set {singular}.NAME.KEY=VALUE")
        else:
            result[key] = merged(result.get(key), value)
    return result


def _assign_to_one(choices: list[dict[str, Any]], kind: str, value: object) -> list[dict[str, Any]]:
    if not isinstance(value, Mapping):
        raise SettingsError(f"--set {kind}=... names no component", fix=f"name it: --set {kind}.NAME.KEY=VALUE")
    names = [label_of(choice) for choice in choices]
    whole = [str(choice.get("name")) for choice in choices]
    for name, settings in _by_name(value, [*names, *whole]).items():
        if name not in [*names, *whole]:
            if len(names) > 1 or not names or isinstance(settings, Mapping):
                raise UnknownNameError(f"selected {kind}", name, names, fix=f"select it: --{kind} {name}")
            name, settings = names[0], {name: settings}
        index = names.index(name) if name in names else whole.index(name)
        own = {"reward": ("weight",), "model": ("fallback",)}.get(kind, ())
        choices[index] = _with_settings(choices[index], settings, f"{kind}.{name}", own)
    return choices


def _by_name(value: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """The settings by component. A name may have dots: `my.notes.limit` is `limit` of "my.notes"."""
    rest, found = copy.deepcopy(dict(value)), dict[str, Any]()
    for name in sorted((name for name in names if "." in name), key=len, reverse=True):
        *path, last = name.split(".")
        tables = [rest]
        for part in path:
            inner = tables[-1].get(part)
            tables.append(inner if isinstance(inner, dict) else {})
        if last in tables[-1]:
            found[name] = tables.pop().pop(last)
            for table, part in zip(reversed(tables), reversed(path), strict=True):
                if not table[part]:
                    del table[part]
    return found | rest


def _with_settings(choice: dict[str, Any], settings: object, where: str, own: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(settings, Mapping):
        if isinstance(settings, str) and where in _SINGLE:
            return {"name": settings}
        raise SettingsError(f"--set {where}=... names no key", fix=f"name it: --set {where}.KEY=VALUE")
    taken = {key: settings[key] for key in own if key in settings}
    rest = {key: item for key, item in settings.items() if key not in own}
    return {**choice, **taken, "settings": merged(choice.get("settings", {}), rest)}


def merged(old: object, new: object) -> object:
    """Merge `new` into `old`. Tables are merged by key: setting one key of a table keeps its others."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}
    return new


def _table(value: object) -> dict[str, Any]:
    return {"name": value} if isinstance(value, str) else dict(value) if isinstance(value, Mapping) else {}


def label_of(choice: Mapping[str, Any]) -> str:
    """What the component of plain values is called in the keys of settings, as `Choice.label`."""
    return str(choice.get("alias") or label_of_name(str(choice.get("name"))))


def listed(value: object) -> list[dict[str, Any]]:
    """The components of plain values, each as a table."""
    items = [value] if isinstance(value, (str, Mapping)) else value
    return [_table(item) for item in items] if isinstance(items, Iterable) else []


_TAG = "$toml"


def to_json(value: object) -> Any:
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
