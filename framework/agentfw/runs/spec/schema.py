"""What may be written: the settings of a component as rows of a table, and a spec file as a JSON schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind

from ...boundary.settings_input import input_key, models_in
from ...errors import AgentfwError, in_words
from ...host import Host
from .run_spec import COMPONENTS, SINGULAR, RunSpec
from .values import to_json

_TYPES = {"string": "text", "array": "list", "object": "table", "null": "none"}  # others keep their names
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


class SettingRow(NamedTuple):
    """One setting. The key of one in a table is dotted; where that is in a list, `tables[].key`."""

    key: str
    kind: str  # its type and bounds, in words
    default: Any  # as JSON, or "required"
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
        default = "required"
        if not field.is_required():
            try:
                default = to_json(field.get_default(call_default_factory=True, validated_data={}))
            except Exception as error:  # a factory of the plugin's may raise anything
                default = f"can't be shown: {in_words(error)}"
        rows.append(SettingRow(prefix + key, kind, default, field.description or ""))
        for inner in models_in(field.annotation):
            if inner is not model:  # a tree of tables has no last key
                several = "[]" if "list" in kind.split() else ""
                rows += setting_rows(inner, f"{prefix}{key}{several}.")
    return rows


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
    name = _TYPES.get(schema["type"], schema["type"]) if "type" in schema else "any value"
    if "minimum" in schema and "maximum" in schema:
        return f"{name}, {_number(schema['minimum'])} to {_number(schema['maximum'])}"
    bounds = [f"{sign} {_number(schema[key])}" for key, sign in _BOUNDS.items() if key in schema]
    return f"{name} {', '.join(bounds)}".strip()


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def spec_schema(host: Host) -> dict[str, Any]:
    """The JSON schema of a spec file, with what is installed. Nothing is required: other layers may add to the file."""
    schema = RunSpec.model_json_schema(schema_generator=_Schema)
    definitions = schema["$defs"]
    for key, kind in COMPONENTS.items():
        field = RunSpec.model_fields[key]
        (form,) = models_in(field.annotation)
        place = f"{kind} {form.__name__}"
        if place not in definitions:
            definitions[place] = {"anyOf": list(_forms(host, kind, definitions[form.__name__], definitions))}
        one = {"$ref": f"#/$defs/{quote(place)}"}
        written = [one, {"type": "array", "items": one}] if key in SINGULAR else [one]
        schema["properties"][key] = {"description": field.description, "anyOf": written}
    schema["properties"]["engine"] = {"anyOf": [{"type": "string"}, schema["properties"]["engine"]]}
    schema.pop("required", None)
    definitions["null"] = {"const": {"null": True}, "description": "No value: { null = true }"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_as_written(schema)}


def _forms(host: Host, kind: str, choice: Mapping[str, Any], definitions: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What may stand in the place of a component: its name, or a table with its settings."""
    offers = {offer.component.name: offer.component.summary for offer in host.components(kind)}
    elsewhere = {"type": "string", "pattern": r"(:|\.py$)"}
    yield {"enum": list(offers)}
    yield elsewhere
    yield {**choice, "properties": {**choice["properties"], "name": elsewhere}}
    for name, summary in offers.items():
        place = f"{kind}.{name}"
        if place not in definitions:
            definitions[place] = _settings_schema(host, kind, name, place)
        own = {"name": {"const": name, "description": summary}, "settings": {"$ref": f"#/$defs/{place}"}}
        yield {**choice, "title": place, "description": summary, "properties": {**choice["properties"], **own}}


def _settings_schema(host: Host, kind: str, name: str, place: str) -> dict[str, Any]:
    try:
        model = host.settings_model(kind, name)
    except AgentfwError:  # a plugin is broken, or two have this name: whoever selects it is told
        return {"type": "object"}
    if model is None:
        return {"type": "object", "maxProperties": 0}
    schema = model.model_json_schema(schema_generator=_Schema, ref_template=f"#/$defs/{place}/$defs/{{model}}")
    schema.pop("required", None)
    return schema


def _as_written(schema: Any) -> Any:
    """The schema of what stands in a TOML file: null and secrets have forms of their own there."""
    if isinstance(schema, list):
        return [_as_written(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "null":
        return {"$ref": "#/$defs/null"}
    written = {
        key: value if key in ("default", "enum", "const") else _as_written(value) for key, value in schema.items()
    }
    if schema.get("format") == "password":
        variable = {"type": "object", "properties": {"env": {"type": "string"}}, "required": ["env"]}
        return {"anyOf": [written, variable]}
    return written
