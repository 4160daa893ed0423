"""The pages reference/components/KIND.md: every component of a kind that a distribution brings, with its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentfw.host import Host, Registered

__all__ = ["component_page", "value_type"]

_TYPES = {
    "integer": "integer",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "array": "list",
    "object": "table",
    "null": "none",
}
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}


def component_page(host: Host, kind: str, distribution: str) -> str:
    """One kind as Markdown: a table of its components, then the settings of each. Empty where there are none."""
    offers = host.components(kind)
    if not offers:
        return ""
    plural = "policies" if kind == "policy" else "memories" if kind == "memory" else f"{kind}s"
    lines = [
        f"# {'Built-in ' + plural if distribution == 'agentfw' else plural.capitalize()}",
        "",
        f"These {plural} ship with {distribution}. `agentfw plugins show NAME` prints the same, "
        "and does so for every plugin.",
        "",
        "| name | what it is |",
        "| --- | --- |",
        *[f"| [`{offer.component.name}`](#{offer.component.name}) | {offer.component.summary} |" for offer in offers],
    ]
    for offer in offers:
        lines += ["", f"## {offer.component.name}", "", f"{offer.component.summary}.", "", *_settings(host, offer)]
    return "\n".join(lines) + "\n"


def value_type(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """What a setting may be, in words, from its JSON schema."""
    if "$ref" in schema:
        return value_type(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(value_type(choice, definitions) for choice in choices))
    name = _TYPES[schema["type"]] if "type" in schema else "any value"
    bounds = [f"{words} {_number(schema[key])}" for key, words in _BOUNDS.items() if key in schema]
    return ", ".join([name, *bounds])


def _settings(host: Host, offer: Registered) -> list[str]:
    model = host.settings_model(offer.kind, offer.component.name)
    extra = [f"Requires the extra `{offer.component.extra}`.", ""] if offer.component.extra else []
    if model is None or not model.model_fields:
        return [*extra, "No settings."]
    schema = model.model_json_schema(by_alias=False)
    rows = []
    for name, field in model.model_fields.items():
        kind = value_type(schema["properties"][name], schema.get("$defs", {}))
        default = "required" if field.is_required() else _default(field.get_default(call_default_factory=True))
        rows.append(f"| `{name}` | {kind} | {default} | {_cell(field.description or '')} |")
    return [*extra, "| setting | type | default | what it does |", "| --- | --- | --- | --- |", *rows]


def _default(value: object) -> str:
    if value is None or value == "" or value == () or value == {}:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return ", ".join(f"`{key} = {one}`" for key, one in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(f"`{one}`" for one in value)
    return f"`{_cell(str(value))}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _number(value: float) -> str:
    return f"{value:g}"
