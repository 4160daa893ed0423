"""Generates the tables of docs/settings.md from the fields of `RunSpec`.

Don't edit the text between the two markers of docs/settings.md by hand. A test compares it with `tables()`.

    python -m agentfw.runs.specdocs docs/settings.md
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from .spec import (
    OF_RUNS,
    OF_TRAININGS,
    TRAINING_DEFAULTS,
    Choice,
    EvaluationSettings,
    RewardChoice,
    RunSpec,
    SamplingSettings,
)

__all__ = ["insert", "tables"]

BEGIN = "<!-- made by python -m agentfw.runs.specdocs docs/settings.md: don't edit by hand -->"
END = "<!-- end of what was made -->"

_KINDS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    Choice: "a component",
    RewardChoice: "a reward",
    SamplingSettings: "a table",
    EvaluationSettings: "a table",
}


def tables() -> str:
    """The keys of a spec and of its tables, as markdown."""
    keys = RunSpec.model_fields
    parts: list[tuple[str, Mapping[str, FieldInfo]]] = [
        ("Every spec", {key: field for key, field in keys.items() if key not in (*OF_RUNS, *OF_TRAININGS)}),
        ("Only without an optimizer", {key: keys[key] for key in OF_RUNS}),
        ("Only with an optimizer, in a training", {key: keys[key] for key in OF_TRAININGS}),
        ("A component", Choice.model_fields),
        ("A reward", RewardChoice.model_fields),
        ("`[sampling]`", SamplingSettings.model_fields),
        ("`[evaluation]` of a training", EvaluationSettings.model_fields),
    ]
    return "\n\n".join(f"### {title}\n\n{_table(fields)}" for title, fields in parts)


def insert(page: str) -> str:
    """The page with new tables between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def _table(fields: Mapping[str, FieldInfo]) -> str:
    rows = [
        f"| `{name}` | {_kind(field.annotation)} | {_default(name, field)} | {field.description or ''} |"
        for name, field in fields.items()
    ]
    return "\n".join(["| key | type | default | meaning |", "| --- | --- | --- | --- |", *rows])


def _kind(annotation: object) -> str:
    """The type of a value, as text."""
    if get_origin(annotation) is tuple:
        return f"a list; each is {_kind(get_args(annotation)[0])}"
    if get_origin(annotation) is dict:
        return "a table"
    members = [member for member in get_args(annotation) if member is not type(None)]
    return " or ".join(map(_kind, members)) if members else _KINDS[annotation]


def _default(name: str, field: FieldInfo) -> str:
    if field.is_required() or name in ("optimizer", "learner"):
        return "required"
    value = _code(field.get_default(call_default_factory=True))
    if field is not RunSpec.model_fields.get(name) or name not in TRAINING_DEFAULTS:
        return value
    return f"{value}; in a training {_code(TRAINING_DEFAULTS[name])}"


def _code(value: object) -> str:
    if value is None or value in ((), {}) or isinstance(value, BaseModel):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(insert(file.read_text("utf-8")), encoding="utf-8")
