"""Settings as a person writes them: assignments of `--set`, their keys, and in plain words what is wrong with them.

All mistakes are reported at once, each with its dotted key, what it must be, what it is, and the nearest right key.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, get_args, get_origin

from pydantic import AliasChoices, BaseModel, Secret, SecretBytes, SecretStr, ValidationError

from ..errors import SettingsError, known_names, nearest
from ..settings import Operational
from .secrets import is_secret_name

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

__all__ = [
    "input_key",
    "input_keys",
    "is_model",
    "is_secret",
    "marked_keys",
    "models_in",
    "operational_keys",
    "parse_assignments",
    "toml_value",
    "validate",
]

_LOOKED_AT = 100  # mistakes that are put into words: a file of another kind has thousands
_DOT = re.compile(r'\.(?=(?:[^"]*"[^"]*")*[^"]*$)')  # in no quotes

# What is said better than pydantic says it. {name} is filled from the error's context.
_WORDS = {
    "missing": "is required",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must be at least {min_length} characters long",
    "value_error": "{error}",
    "assertion_error": "{error}",
}
# The first part of an error type names the wanted type: int_parsing, int_type, int_from_float ...
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string_type": "text",
    "tuple": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "dict": "a table",
    "mapping": "a table",
    "model": "a table",
}


def validate(model: type[BaseModel] | None, values: Mapping[str, object], where: str) -> BaseModel | None:
    """The settings object for `values`, or one SettingsError with everything that is wrong with them.

    `where` is how a person calls these settings, such as "policy"; each complaint begins with it. A component without
    settings has no model: then nothing may be given.
    """
    if model is None:
        if values:
            unknown = {f"{where}.{key}": "no such key: it has no settings" for key in values}
            raise SettingsError.of(unknown, f"give {where} no settings")
        return None
    problems: dict[str, list[str]] = {}
    checked, more, unread = None, 0, dict[str, list[str]]()
    values = _with_secrets(model, values, where, unread)
    try:
        checked = model.model_validate(values)
    except ValidationError as error:
        details = error.errors(include_url=False)
        more = len(details[_LOOKED_AT:])
        for detail in details[:_LOOKED_AT]:
            # Where the error is, without the members of a union that pydantic tried: nobody wrote those.
            path: list[str | int] = []
            inner: object = values
            for number, part in enumerate(detail["loc"], start=1):
                places = dict(enumerate(inner)) if isinstance(inner, (list, tuple)) else inner
                if isinstance(places, Mapping) and part in places:
                    inner = places[part]
                    path.append(part)
                elif detail["type"] == "missing" and number == len(detail["loc"]):
                    path.append(part)
            problems.setdefault(".".join([where, *map(str, path)]), []).append(_explain(detail, model, path))
    problems |= unread
    if not problems:
        return checked
    which = " and ".join(problems) if len(problems) <= 3 else "them"
    fix = f"correct {which}, in the spec or with --set"
    for dotted, texts in problems.items():
        key = dotted.removeprefix(f"{where}.")
        if "." not in key and any(text.startswith("no such key") for text in texts):
            fix = known_names(f" settings of {where}", key, input_keys(model))
            break
    raise SettingsError.of({dotted: _merge(texts) for dotted, texts in problems.items()}, fix, more)


def parse_assignments(assignments: Iterable[str]) -> dict[str, object]:
    """What `--set` gives: "environment.rate=0.5" becomes {"environment": {"rate": 0.5}}; of equal keys the last holds.

    A key with dots in it is quoted, as "gpt-4.1". The value is read as TOML where it is TOML, and else taken as text:
    0.5, true, [1, 2], "quoted" or plain words. `null` unsets a value; TOML itself has no such value.
    """
    given = []
    for assignment in assignments:
        dotted, equals, text = assignment.partition("=")
        path = [part.strip().strip('"') for part in _DOT.split(dotted)]
        if not equals or not all(path):
            raise SettingsError(f'--set "{assignment}" isn\'t of the form KEY=VALUE', fix="--set environment.rate=0.5")
        given.append((path, toml_value(text)))
    return nested(given)


def nested(given: Iterable[tuple[Sequence[str], object]]) -> dict[str, Any]:
    """Put values into tables by their paths: (["environment", "rate"], 0.5) gives {"environment": {"rate": 0.5}}."""
    values: dict[str, Any] = {}
    for path, value in given:
        *tables, last = path
        table = values
        for part in tables:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise SettingsError(f"{'.'.join(path)} is below {part}, which has a value", fix="drop one of them")
        if isinstance(table.get(last), dict):
            wrong = f"{'.'.join(path)} can't have a value, because keys below it have one"
            raise SettingsError(wrong, fix="drop one of them")
        table[last] = value
    return values


def toml_value(text: str) -> object:
    """The value of an assignment."""
    if text.strip() == "null":
        return None
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text  # a line break in the text could begin another key


def _with_secrets(
    model: type[BaseModel], values: Mapping[str, object], where: str, unread: dict[str, list[str]]
) -> dict[str, object]:
    """The values, with secrets that are given as `{ env = "NAME" }` read from the environment."""
    found = dict(values)
    if model.model_config.get("extra") in (None, "ignore"):
        # A model that doesn't say would drop unknown keys without a word, typing slips among them.
        known = input_keys(model)
        unread |= {f"{where}.{key}": [_no_such_key(key, known)] for key in values if key not in known}
    for name, field in model.model_fields.items():
        key, kind = input_key(name, field), field.annotation
        given, place = values.get(key), f"{where}.{key}"
        if is_secret(kind) and isinstance(given, Mapping) and given.keys() == {"env"}:
            variable = str(given["env"])
            if variable in os.environ:
                found[key] = os.environ[variable]
            else:
                unread[place] = [f"the environment variable {variable} is not set"]
            continue
        inner = [one for one in (kind, *get_args(kind)) if is_model(one)]
        if len(inner) == 1 and get_origin(kind) not in (dict, Mapping):
            found |= {key: _in_tables(inner[0], given, place, unread)} if key in values else {}
    return found


def _in_tables(model: type[BaseModel], given: Any, where: str, unread: dict[str, list[str]]) -> Any:
    """The tables of a model that were given, one or a list of them, with their secrets."""
    if isinstance(given, (list, tuple)):
        return [_in_tables(model, each, f"{where}.{number}", unread) for number, each in enumerate(given)]
    return _with_secrets(model, given, where, unread) if isinstance(given, Mapping) else given


def _explain(detail: ErrorDetails, model: type[BaseModel], path: list[str | int]) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden":
        inner = [one for field in _fields_at(model, path[:-1]) for one in models_in(field.annotation)]
        return _no_such_key(str(path[-1]), {key for one in (inner if path[1:] else [model]) for key in input_keys(one)})
    wanted = next((words for name, words in _TYPES.items() if f"{kind}_".startswith(f"{name}_")), "")
    if kind in _WORDS or wanted:
        given = detail.get("ctx", {}).items()
        context = {name: f"{value:g}" if isinstance(value, float) else value for name, value in given}
        text = _WORDS.get(kind, f"must be {wanted}").format_map(context)
    else:
        text = detail["msg"].replace("Input should", "must").replace("should", "must").replace(" valid ", " ")
        text = text[:1].lower() + text[1:]
    named_so = bool(path) and is_secret_name(str(path[-1]))
    secret = named_so or any(is_secret(field.annotation) for field in _fields_at(model, path))
    return text if kind == "missing" or secret or not path else f"{text} (got {_shown(detail['input'])})"


def _merge(texts: list[str]) -> str:
    """One error for each key: pydantic reports one for each member of a union."""
    texts = list(dict.fromkeys(texts))
    if len(texts) == 1 or not all(text.startswith("must be ") and " (got " in text for text in texts):
        return "; ".join(texts)
    wishes = [text.removeprefix("must be ").rpartition(" (got ")[0] for text in texts]
    return f"must be {' or '.join(wishes)} (got {texts[0].rpartition(' (got ')[2]}"


def _no_such_key(key: str, known: Iterable[str]) -> str:
    guess = nearest(key, known)
    return f'no such key; did you mean "{guess}"?' if guess else "no such key"


def _fields_at(model: type[BaseModel], path: list[str | int]) -> list[FieldInfo]:
    """The fields that a path leads to: models are found directly, in lists, tables and unions."""
    models = [model]
    fields: list[FieldInfo] = []
    for part in path:
        known = [each for one in models for each in one.model_fields.items()]
        found = [field for name, field in known if part in (name, input_key(name, field))]
        if found:  # else it is an index, or a key of a table: the fields are still those of the list or the table
            fields = found
            models = [inner for field in fields for inner in models_in(field.annotation)]
    return fields


def _shown(value: object) -> str:
    """A value as it would stand in a settings file, short."""
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def is_model(value: object) -> TypeGuard[type[BaseModel]]:
    """True for a pydantic model, so that whoever asks needn't import pydantic."""
    return isinstance(value, type) and issubclass(value, BaseModel)


def input_key(name: str, field: FieldInfo) -> str:
    """The key that a person writes for a field: its alias where it has one."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        alias = next((choice for choice in alias.choices if isinstance(choice, str)), None)
    return alias if isinstance(alias, str) else name


def operational_keys(settings: BaseModel) -> dict[str, Operational]:
    """The keys of what a resumed run may change of these settings. Those of a table are `table` and `table.key`."""
    found: dict[str, Operational] = {}
    for name, field in type(settings).model_fields.items():
        for mark in field.metadata:
            if isinstance(mark, Operational) and not (mark.unless is not None and mark.unless(settings)):
                key = input_key(name, field)
                inner = [f"{key}.{inner}" for one in models_in(field.annotation) for inner in input_keys(one)]
                found |= dict.fromkeys([key, *inner], mark)
    return found


def marked_keys(model: type[BaseModel] | None, mark: object) -> set[str]:
    """The keys of the settings with this mark, `SHARED` or `VERSION`."""
    fields = {} if model is None else model.model_fields
    return {input_key(name, field) for name, field in fields.items() if mark in field.metadata}


def input_keys(model: type[BaseModel]) -> set[str]:
    """The keys that a person may write."""
    return {input_key(name, field) for name, field in model.model_fields.items()}


def is_secret(annotation: object) -> bool:
    """Whether a type is one of pydantic's for secrets, or contains one."""
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and issubclass(kind, (SecretStr, SecretBytes, Secret)):
        return True
    return any(is_secret(inner) for inner in get_args(annotation))


def models_in(annotation: object) -> list[type[BaseModel]]:
    """The models in a type: itself, or those in its lists, tables and unions."""
    if is_model(annotation):
        return [annotation]
    return [model for inner in get_args(annotation) for model in models_in(inner)]
