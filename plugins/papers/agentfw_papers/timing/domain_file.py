"""Reads a domain file and its sources, and checks them before anything else happens.

Every error names the file and the key. An unknown key is refused with the nearest known one.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from agentfw_papers.timing.catalog import Kind
from agentfw_papers.timing.dialogues import Speaker
from agentfw_papers.timing.readers import READERS, read_workflows
from agentfw_rewardmodels import BadInputError

_Model = TypeVar("_Model", bound=BaseModel)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if data is None:  # a YAML key with nothing after it
            return {}
        for key in data if isinstance(data, dict) else ():
            if key not in cls.model_fields:
                near = difflib.get_close_matches(str(key), cls.model_fields, n=1)
                hint = f'did you mean "{near[0]}"?' if near else f"known keys: {', '.join(cls.model_fields)}"
                raise ValueError(f'unknown key "{key}"; {hint}')
        return data


class SlotSection(_Section):
    type: str = "string"
    values: dict[str, list[str]] = {}
    pattern: str = ""
    description: str = ""

    @field_validator("values", mode="before")
    @classmethod
    def _listed(cls, values: Any) -> Any:
        return {str(value): [] for value in values} if isinstance(values, list) else values

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return pattern


class ActionSection(_Section):
    kind: Kind = "api"
    group: str = ""
    description: str = ""
    parameters: list[str] | dict[str, SlotSection] = []
    required: list[str] = []
    aliases: list[str] = []


class WorkflowSection(_Section):
    actions: list[str]
    flow: str = ""

    @model_validator(mode="before")
    @classmethod
    def _listed(cls, data: Any) -> Any:
        return {"actions": data} if isinstance(data, list) else data


class Definitions(_Section):
    slots: dict[str, SlotSection] = {}
    actions: dict[str, ActionSection] = {}
    workflows: dict[str, WorkflowSection] = {}


class SourceSection(_Section):
    reader: Literal["plain", "mcp", "ontology"]
    file: str
    workflows: str = ""


class DomainSection(Definitions):
    name: str
    version: str = "1"
    sources: list[SourceSection] = []
    speakers: dict[str, Speaker] = {}
    observed: bool = True
    phrases: dict[str, Any] = {}


def read_domain_file(path: Path) -> tuple[DomainSection, Definitions]:
    """The file itself, and the definitions of its sources, overridden by its own."""
    file = _validated(DomainSection, _load(path), path)
    merged: dict[str, dict[str, dict[str, Any]]] = {"slots": {}, "actions": {}, "workflows": {}}
    for source in file.sources:
        source_path = path.parent / source.file
        found = _read_source(source, source_path, path.parent)
        for kind, entries in merged.items():
            for name, entry in getattr(found, kind).items():
                if name in entries:
                    raise BadInputError(
                        f'{source_path}: {kind}.{name}: another source of {path} defines "{name}" as well',
                        fix="rename or remove one of them",
                    )
                entries[name] = entry.model_dump(exclude_unset=True)
    for kind, entries in merged.items():
        for name, entry in getattr(file, kind).items():
            entries[name] = entries.get(name, {}) | entry.model_dump(exclude_unset=True)
    return file, _validated(Definitions, merged, path)


def _read_source(source: SourceSection, path: Path, folder: Path) -> Definitions:
    data = _load(path)
    with in_file(path):
        found = READERS[source.reader](data)
    flows = found.pop("flows", {})
    if source.workflows:
        workflows = folder / source.workflows
        data = _load(workflows)
        with in_file(workflows):
            found["workflows"] = read_workflows(data, flows)
    return _validated(Definitions, found, path)


def _validated(section: type[_Model], data: Any, path: Path) -> _Model:
    try:
        return section.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        # The names of alternatives, such as list[str], are of no use to the reader.
        key = ".".join(str(part) for part in first["loc"] if "[" not in str(part))
        problem, _, hint = first["msg"].removeprefix("Value error, ").partition("; ")
        message = f"{path}: {key}: {problem}" if key else f"{path}: {problem}"
        raise BadInputError(message, fix=hint or "correct the value in the file") from None


def _load(path: Path) -> Any:
    """The content of a JSON or YAML file. A repeated key in an object is an error, not an override."""
    try:
        text = path.read_text("utf-8-sig")
        with in_file(path):
            if path.suffix.lower() == ".json":
                return json.loads(text, object_pairs_hook=_object)
            return yaml.load(text, _Loader)
    except BadInputError:  # a ValueError as well
        raise
    except OSError as error:
        raise BadInputError(f"{path} can't be read: {error.strerror}", fix="check the path") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise BadInputError(f"{path} is damaged: {error}", fix="correct the file at this place") from error


@contextmanager
def in_file(path: Path) -> Iterator[None]:
    """Add the name of the file to errors in the block."""
    try:
        yield
    except BadInputError as error:
        raise BadInputError(f"{path}: {error.message}", fix=error.fix) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _refuse_repeated([key for key, _ in pairs])
    return dict(pairs)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        _refuse_repeated([key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)])
        return dict(super().construct_mapping(node, deep))


def _refuse_repeated(keys: list[str]) -> None:
    if repeated := [key for key, count in Counter(keys).items() if count > 1]:
        raise BadInputError(f'the key "{repeated[0]}" appears twice', fix="rename or remove one of them")
