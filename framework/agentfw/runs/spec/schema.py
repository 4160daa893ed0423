"""The settings of components as rows for people, made from the JSON schema of their models.

setting_rows(host.settings_model("policy", "openai"))[0].kind      # "text"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind

from ...boundary.settings_input import input_key, models_in
from ...errors import in_words
from .resolution import to_json

_TYPES = {
    "integer": "integer",
    "number": "number",
    "string": "text",
    "boolean": "boolean",
    "array": "list",
    "object": "table",
    "null": "none",
}
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


class SettingRow(NamedTuple):
    """One setting. The key of one in a table is dotted; where that is in a list, `tables[].key`."""

    key: str
    kind: str
    """Its type and bounds, in words."""
    default: Any
    """As JSON, or "required"."""
    description: str


class _Schema(GenerateJsonSchema):
    """Leaves what JSON can't say open: a type of a plugin's own may be anything."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """A default that isn't JSON is left out, too."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        return {}


def setting_rows(model: type[BaseModel], prefix: str = "") -> list[SettingRow]:
    """The settings of a model, each table followed by the keys in it."""
    schema = model.model_json_schema(schema_generator=_Schema)
    rows = []
    for name, field in model.model_fields.items():
        key = input_key(name, field)
        kind = value_type(schema["properties"].get(key, {}), schema.get("$defs", {}))
        rows.append(SettingRow(prefix + key, kind, _default(field), field.description or ""))
        for inner in models_in(field.annotation):
            if inner is not model:  # a tree of tables has no last key
                several = "[]" if "list" in kind.split() else ""
                rows += setting_rows(inner, f"{prefix}{key}{several}.")
    return rows


def _default(field: FieldInfo) -> Any:
    if field.is_required():
        return "required"
    try:
        return to_json(field.get_default(call_default_factory=True, validated_data={}))
    except Exception as error:  # a factory of the plugin's may raise anything
        return f"can't be shown: {in_words(error)}"


def value_type(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """What a setting may be, in words, from its JSON schema."""
    if "$ref" in schema:
        return value_type(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"] if value != "")
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(value_type(choice, definitions) for choice in choices))
    name = _TYPES[schema["type"]] if "type" in schema else "any value"
    if "minimum" in schema and "maximum" in schema:
        return f"{name}, {_number(schema['minimum'])} to {_number(schema['maximum'])}"
    bounds = [f"{sign} {_number(schema[key])}" for key, sign in _BOUNDS.items() if key in schema]
    return f"{name} {', '.join(bounds)}".strip()


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
