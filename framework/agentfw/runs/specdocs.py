"""The tables of docs/reference/settings.md, made from the fields of `RunSpec` and `TrainSpec`.

A test compares what stands between the two markers of the page with `tables()`.

    python -m agentfw.runs.specdocs docs/reference/settings.md
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ..training.spec import EvaluationSettings, TrainSpec
from .spec import Choice, CommonSpec, RewardChoice, RunSpec, SamplingSettings

__all__ = ["insert", "tables"]

BEGIN = "<!-- made by python -m agentfw.runs.specdocs docs/reference/settings.md: don't edit by hand -->"
END = "<!-- end of what was made -->"

_KINDS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    Choice: "a component",
    RewardChoice: "a reward",
    SamplingSettings: "a table",
    EvaluationSettings: "a table",
}


def tables() -> str:
    """The keys of a spec, of its tables, and of what else the spec of a training has, as markdown."""
    parts: list[tuple[str, type[BaseModel]]] = [
        ("A spec", RunSpec),
        ("A component", Choice),
        ("A reward", RewardChoice),
        ("`[sampling]`", SamplingSettings),
        ("A training's spec, where it differs", TrainSpec),
        ("`[evaluation]` of a training", EvaluationSettings),
    ]
    return "\n\n".join(f"### {title}\n\n{_table(model)}" for title, model in parts)


def insert(page: str) -> str:
    """The page with the tables between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def _table(model: type[BaseModel]) -> str:
    rows = [
        f"| `{name}` | {_kind(field.annotation)} | {_default(field)} | {field.description or ''} |"
        for name, field in model.model_fields.items()
        if model is not TrainSpec or repr(field) != repr(CommonSpec.model_fields.get(name))
    ]
    return "\n".join(["| key | is | default | meaning |", "| --- | --- | --- | --- |", *rows])


def _kind(annotation: object) -> str:
    """What a value may be, in words."""
    if get_origin(annotation) is tuple:
        return f"a list; each is {_kind(get_args(annotation)[0])}"
    if get_origin(annotation) is dict:
        return "a table"
    members = [member for member in get_args(annotation) if member is not type(None)]
    return " or ".join(map(_kind, members)) if members else _KINDS[annotation]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), {}) or isinstance(value, BaseModel):
        return "none"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(insert(file.read_text("utf-8")), encoding="utf-8")
