"""Readers of action definitions in other formats. Each turns decoded JSON into the shape of a domain file.

| reader | what it reads |
| --- | --- |
| `plain` | the keys `slots`, `actions` and `workflows`, as in a domain file |
| `mcp` | the tools of an MCP server: a list, or an object with the key `tools` |
| `ontology` | actions by group with their slots, `values` of the slots, and `intents` with flows and subflows |

What a reader returns is checked afterwards like a domain file, so readers only move values around.

    >>> read_mcp([{"name": "pay", "inputSchema": {"properties": {"sum": {"type": "number"}}, "required": ["sum"]}}])
    {'actions': {'pay': {'kind': 'mcp', 'parameters': {'sum': {'type': 'number'}}, 'required': ['sum']}}}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentfw_rewardmodels import BadInputError

Definitions = dict[str, Any]
Reader = Callable[[Any], Definitions]


def read_plain(data: Any) -> Definitions:
    return dict(_mapping(data, "the file"))


def read_mcp(data: Any) -> Definitions:
    tools = data.get("tools") if isinstance(data, dict) else data
    if not isinstance(tools, list):
        raise BadInputError("there is no list of tools", fix="save the result of the server's tools/list")
    actions: dict[str, Any] = {}
    for tool in tools:
        name = _mapping(tool, "a tool").get("name")
        _add(actions, str(name), _tool(tool))
    return {"actions": actions}


def read_ontology(data: Any) -> Definitions:
    data = _mapping(data, "the file")
    values = _mapping(data.get("values", {}), "values")
    allowed = _mapping(values.get("enumerable", {}), "values.enumerable")
    slots: dict[str, Any] = {name: {"values": listed} for name, listed in allowed.items()}
    # A slot can be in both lists. Then its allowed values count.
    for names in _mapping(values.get("non_enumerable", {}), "values.non_enumerable").values():
        slots.update({name: {} for name in names if name not in slots})
    actions: dict[str, Any] = {}
    for group, members in _mapping(data.get("actions"), "actions").items():
        for name, parameters in _mapping(members, f"actions.{group}").items():
            _add(actions, name, {"group": group, "parameters": parameters})
    flows = _mapping(_mapping(data.get("intents", {}), "intents").get("subflows", {}), "intents.subflows")
    return {"slots": slots, "actions": actions, "flows": flows}


def read_workflows(data: Any, flows: Mapping[str, Any]) -> Definitions:
    """Workflows from a mapping of their names to lists of actions. `flows` groups their names."""
    flow_of = {name: flow for flow, names in flows.items() for name in names}
    workflows = _mapping(data, "the file")
    return {name: {"actions": actions, "flow": flow_of.get(name, "")} for name, actions in workflows.items()}


READERS: Mapping[str, Reader] = {"plain": read_plain, "mcp": read_mcp, "ontology": read_ontology}


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    schema = _mapping(tool.get("inputSchema", {}), "inputSchema")
    parameters = {name: _property(each) for name, each in _mapping(schema.get("properties", {}), "properties").items()}
    action = {"kind": "mcp", "description": tool.get("description"), "parameters": parameters}
    return {key: value for key, value in action.items() if value is not None} | {"required": schema.get("required", [])}


def _property(schema: Any) -> dict[str, Any]:
    schema = schema if isinstance(schema, dict) else {}
    kinds = schema.get("type", "string")
    kind = next((one for one in kinds if one != "null"), "string") if isinstance(kinds, list) else kinds
    facts = {"type": kind, "pattern": schema.get("pattern"), "description": schema.get("description")}
    if isinstance(schema.get("enum"), list):
        facts["values"] = [str(value) for value in schema["enum"]]
    return {key: value for key, value in facts.items() if value is not None}


def _add(actions: dict[str, Any], name: str, action: dict[str, Any]) -> None:
    if name in actions:
        raise BadInputError(f'there are two actions of the name "{name}"', fix="rename or remove one of them")
    actions[name] = action


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInputError(f"{what} is not a JSON object", fix="check that the reader is the right one for this file")
    return value
