"""Action catalogs and the YAML files that define them: what is read, what is refused, and in which words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentfw_papers.timing import Domain, Trigger, Workflow, load_domain
from agentfw_rewardmodels.errors import BadInputError

BAKERY = """
name: bakery
version: 1
observed: false
speakers: {guest: customer, baker: professional}
slots:
  cake: {values: {apple: [apple pie, Apfelkuchen], plum: []}}
  day: {pattern: "[a-z]+day", description: Day of the week}
actions:
  look-up-customer:
  order-cake: {kind: agent, description: Order a cake, parameters: [cake, day], required: [cake], aliases: [Order!]}
  call-back: {parameters: {phone: {type: number}}}
workflows:
  birthday: [look-up-customer, order-cake]
  complaint: {actions: [look-up-customer, call-back], flow: trouble}
phrases: {openings: {birthday: [I need a cake]}}
"""


def domain(folder: Path, text: str, **files: Any) -> Domain:
    """The domain that this text and these JSON files define."""
    for name, content in files.items():
        (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    path = folder / "domain.yaml"
    path.write_text(text, "utf-8")
    return load_domain(path)


def test_a_domain_is_a_yaml_file_and_nothing_else(tmp_path: Path) -> None:
    bakery = domain(tmp_path, BAKERY)
    catalog = bakery.catalog

    assert (catalog.name, catalog.version, bakery.observed) == ("bakery", "1", False)
    assert bakery.speakers == {"guest": "customer", "baker": "professional"}
    assert bakery.phrases == {"openings": {"birthday": ["I need a cake"]}}
    assert catalog.workflows[1] == Workflow("complaint", ("look-up-customer", "call-back"), "trouble")
    order = "order-cake(cake, day?): Order a cake"
    assert catalog.render("signatures").splitlines() == ["look-up-customer()", order, "call-back(phone?)"]
    assert catalog.render("names") == "look-up-customer, order-cake, call-back"
    assert catalog.render("none") == ""
    schema = json.loads(catalog.render("full").splitlines()[1])
    assert (schema["name"], schema["kind"], schema["parameters"]["required"]) == ("order-cake", "agent", ["cake"])
    assert schema["parameters"]["properties"] == {
        "cake": {"type": "string", "enum": ["apple", "plum"]},
        "day": {"type": "string", "description": "Day of the week", "pattern": "[a-z]+day"},
    }
    assert catalog.canonical("order!", "cake", "Apfelkuchen ") == "apple"
    assert catalog.canonical("order-cake", "cake", "cherry") == "cherry"
    assert catalog.canonical("bake", "cake", "Apfelkuchen") == "Apfelkuchen"


def test_the_tools_of_an_mcp_server_are_actions_with_their_own_parameters(tmp_path: Path) -> None:
    paying = {"sum": {"type": ["number", "null"]}, "currency": {"enum": ["EUR", "USD"]}}
    tools = [
        {"name": "pay", "description": "Pay a bill", "inputSchema": {"properties": paying, "required": ["sum"]}},
        {"name": "refund", "inputSchema": {"properties": {"sum": {"type": "string"}}}},
    ]
    text = "name: bank\nsources: [{reader: mcp, file: tools.json, workflows: flows.json}]\n"

    catalog = domain(tmp_path, text, tools={"tools": tools}, flows={"dispute": ["pay", "refund"]}).catalog

    assert catalog.render("signatures").splitlines() == ["pay(sum, currency?): Pay a bill", "refund(sum?)"]
    assert [action.parameters[0].type for action in catalog.actions] == ["number", "string"]
    assert {action.kind for action in catalog.actions} == {"mcp"}
    assert catalog.workflows[0].actions == ("pay", "refund")


def test_the_domain_file_overrides_what_its_sources_say(tmp_path: Path) -> None:
    plain = {"slots": {"day": {"description": "When"}}, "actions": {"order": {"parameters": ["day"], "group": "shop"}}}
    text = """
name: shop
sources: [{reader: plain, file: plain.json}]
slots: {day: {pattern: "[a-z]+day"}}
actions: {order: {required: [day]}, cancel: {}}
"""

    catalog = domain(tmp_path, text, plain=plain).catalog

    order = catalog.actions[0]
    assert (order.group, order.signature) == ("shop", "order(day)")
    assert (order.parameters[0].pattern, order.parameters[0].description) == ("[a-z]+day", "When")
    assert catalog.actions[1].name == "cancel"


def test_an_input_is_required_once_five_uses_have_it(tmp_path: Path) -> None:
    catalog = domain(tmp_path, BAKERY).catalog
    with_day = [Trigger(3, "order-cake", {"cake": "plum", "day": "monday"})]

    after_four = catalog.with_observed(with_day * 4)
    after_five = catalog.with_observed(with_day * 5)
    once_without = catalog.with_observed([*with_day * 5, Trigger(4, "order-cake", {"day": "friday"})])

    signatures = [one.actions[1].signature.partition(":")[0] for one in (after_four, after_five, once_without)]
    assert signatures == ["order-cake(cake, day?)", "order-cake(cake, day)", "order-cake(cake?, day)"]
    with pytest.raises(BadInputError, match='"dance" is not in the catalog'):
        catalog.with_observed([Trigger(1, "dance")])


ONE = "actions: {a: {}}\n"


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("name: x\n", "has no action", "define at least one action"),
        (ONE, "name: Field required", ""),
        ("name: x\n" + ONE + "workflow: {}\n", 'unknown key "workflow"', 'did you mean "workflows"?'),
        ("name: x\nactions: {a: {parameter: []}}\n", 'a: unknown key "parameter"', 'did you mean "parameters"?'),
        ("name: x\n" + ONE + "workflows: {w: [a, b]}\n", 'workflow "w" has the action "b"', "define the action"),
        ("name: x\nactions: {a: {}, a: {}}\n", 'the key "a" appears twice', "rename or remove"),
        ("name: x\nactions: {a: {parameters: [day]}}\n", 'actions.a.parameters: there is no slot "day"', "slots.day"),
        ("name: x\nactions: {a: {required: [day]}}\n", 'actions.a.required: "day" is not a parameter', ""),
        ("name: x\nactions: {a: {aliases: [b]}, b: {}}\n", 'more than one action or alias "b"', "rename or remove"),
        ("name: x\nactions: {a: {kind: magic}}\n", "actions.a.kind: ", ""),
        ("name: x\nslots: {s: {pattern: '('}}\n" + ONE, "slots.s.pattern: not a regular expression", ""),
        ("name: x\nspeakers: {me: somebody}\n" + ONE, "speakers.me: ", ""),
        ("name: x\nsources: [{reader: plain, file: nowhere.json}]\n", "nowhere.json can't be read", "check the path"),
        ("name: x\nsources: [{reader: mcp, file: odd.json}]\n", "odd.json: there is no list of tools", "tools/list"),
        ("name: x\nsources: [{reader: ontology, file: odd.json}]\n", "odd.json: actions is not a", "reader"),
        ("name: x\nsources: [{reader: plain, file: odd.json}]\n", 'odd.json: unknown key "odd"', ""),
        ("name: [\n", "is damaged", ""),
        ("- x\n", "domain.yaml: ", ""),
    ],
)
def test_what_is_wrong_with_a_domain_is_said_with_its_place(tmp_path: Path, text: str, message: str, fix: str) -> None:
    with pytest.raises(BadInputError) as caught:
        domain(tmp_path, text, odd={"odd": 1})

    assert str(tmp_path) in caught.value.message
    assert message in caught.value.message
    assert caught.value.fix
    assert fix in caught.value.fix


A: dict[str, Any] = {"actions": {"a": {}}}


@pytest.mark.parametrize(
    ("readers", "files", "message"),
    [
        (("plain", "plain"), [A, A], "1.json: actions.a: another source of"),
        (("ontology",), [{"actions": {"g": {"a": []}, "h": {"a": []}}}], "0.json: there are two actions of the name"),
        (("ontology",), ['{"actions": {"g": {"a": [], "a": []}}}'], '0.json: the key "a" appears twice'),
        (("mcp",), [[{"name": "a"}, {"name": "a"}]], '0.json: there are two actions of the name "a"'),
    ],
)
def test_an_action_that_is_defined_twice_is_refused(
    tmp_path: Path, readers: tuple[str, ...], files: list[Any], message: str
) -> None:
    sources = ", ".join(f"{{reader: {reader}, file: {number}.json}}" for number, reader in enumerate(readers))

    with pytest.raises(BadInputError, match=re.escape(message)):
        domain(tmp_path, f"name: x\nsources: [{sources}]\n", **{str(n): file for n, file in enumerate(files)})
