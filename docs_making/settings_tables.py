"""The lists of keys in docs/reference/settings.md, made from the fields of `RunSpec`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from agentfw.engine import EngineSettings
from agentfw.runs.spec.run_spec import (
    OF_RUNS,
    OF_TRAININGS,
    TRAINING_DEFAULTS,
    Choice,
    EvaluationSettings,
    ModelChoice,
    RewardChoice,
    RunSpec,
    SamplingSettings,
    SpendingSettings,
    ToolChoice,
)

PLACE = "<!-- The keys, from the fields of RunSpec. -->"

_KINDS: Mapping[Any, str] = {
    int: "integer",
    float: "number",
    str: "text",
    bool: "boolean",
    Choice: "component",
    ToolChoice: "tool",
    RewardChoice: "reward",
    ModelChoice: "model",
    SamplingSettings: "table",
    SpendingSettings: "table",
    EvaluationSettings: "table",
    EngineSettings: "`local`, `ray` or table",
}
_PLAIN = ("integer", "number", "text", "boolean")
"""Types that a default shows."""


def tables() -> str:
    """The keys of a spec and of its tables, as markdown."""
    keys = RunSpec.model_fields
    parts: list[tuple[str, Mapping[str, FieldInfo]]] = [
        ("Every spec", {key: field for key, field in keys.items() if key not in (*OF_RUNS, *OF_TRAININGS)}),
        ("Only without an optimizer", {key: keys[key] for key in OF_RUNS}),
        ("Only with an optimizer, in a training", {key: keys[key] for key in OF_TRAININGS}),
        ("A component", Choice.model_fields),
        ("Also of a tool", _added(ToolChoice, Choice)),
        ("Also of a reward", _added(RewardChoice, Choice)),
        ("Also of a model", _added(ModelChoice, Choice)),
        ("`[engine]`", EngineSettings.model_fields),
        ("`[sampling]`", SamplingSettings.model_fields),
        ("`[budget]`", SpendingSettings.model_fields),
        ("`[evaluation]` of a training", EvaluationSettings.model_fields),
    ]
    return "\n\n".join(f"### {title}\n\n{_table(fields)}" for title, fields in parts)


def insert(page: str) -> str:
    """The page with the tables in their place."""
    if PLACE not in page:
        raise ValueError(f"the page needs the line {PLACE}")
    return page.replace(PLACE, tables())


def _added(model: type[BaseModel], base: type[BaseModel]) -> dict[str, FieldInfo]:
    return {name: field for name, field in model.model_fields.items() if name not in base.model_fields}


def _table(fields: Mapping[str, FieldInfo]) -> str:
    return "\n".join(
        f"- {_key(name, field, _kind(field.annotation))}: {field.description or ''}" for name, field in fields.items()
    )


def _key(name: str, field: FieldInfo, kind: str) -> str:
    """The key with its default; with its type where that doesn't show it."""
    default = "" if field.is_required() else _code(field.get_default(call_default_factory=True))
    needed = field.is_required() or name in ("optimizer", "learner")
    shown = default and kind in _PLAIN
    words = ", ".join([*([] if shown else [kind]), *(["required"] if needed else [])])
    text = f"`{name}={default}`" if default else f"`{name}`"
    if field is RunSpec.model_fields.get(name) and name in TRAINING_DEFAULTS:
        text += f", in a training `{_code(TRAINING_DEFAULTS[name])}`"
    return f"{text} ({words})" if words else text


def _kind(annotation: object) -> str:
    """The type of a value, as text."""
    if get_origin(annotation) is tuple:
        return f"list: {_kind(get_args(annotation)[0])}"
    if get_origin(annotation) is dict:
        return "table"
    members = [member for member in get_args(annotation) if member is not type(None)]
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{member}`" for member in members)
    return " or ".join(map(_kind, members)) if members else _KINDS[annotation]


def _code(value: object) -> str:
    """In TOML; empty for none."""
    if value is None or value in ((), {}, "") or isinstance(value, BaseModel):
        return ""
    return json.dumps(value)
