"""Predictions out of what a model wrote: every form that is meant beyond doubt is read, and no text raises anything.

And the YAML files that define the actions: what is read, what is refused, and in which words.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw_papers import timing
from agentfw_papers.timing import Action, Catalog, Input, Opportunity, Parameter, read_answer, read_value
from agentfw_papers.timing.reading import MOST_OPPORTUNITIES, Answer
from agentfw_rewardmodels.errors import BadInputError

PARAMETERS = (Parameter("customer_name", required=True), Parameter("account_id"))
ACTIONS = (Action("pull-up-account", parameters=PARAMETERS), Action("send-link", aliases=("Email link",)))
CATALOG = Catalog("shop", "1", ACTIONS)
NAMED = Input("customer_name", True, "Joyce Wu")
ACCOUNT = Opportunity("pull-up-account", "ready_to_trigger", (NAMED,), (Input("account_id"),))
ROW = {
    "name": "pull-up-account",
    "status": "ready_to_trigger",
    "required": [{"name": "customer_name", "provided": True, "value": "Joyce Wu"}],
    "optional": [{"name": "account_id", "provided": False, "value": None}],
}
NAMED_AS_IN_THE_PAPER = {
    "action_opportunity": {
        "name": "pull-up-account",
        "inputs": {
            "required": {"input_name": "customer_name", "provided": "true", "value": "Joyce Wu"},
            "optional": [{"input_name": "account_id", "provided": False, "value": ""}],
        },
        "action_trigger_status": "READY_TO_TRIGGER",
    }
}
PLAIN = json.dumps([ROW])


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        json.dumps({"proactive_action_opportunities": [NAMED_AS_IN_THE_PAPER]}),
        json.dumps(ROW),
        json.dumps([ROW | {"inputs": {"customer_name": "Joyce Wu", "account_id": None}}]),
        json.dumps([ROW | {"required": {"customer_name": "Joyce Wu", "account_id": "?"}, "optional": None}]),
        json.dumps([ROW | {"name": "Pull up account", "status": "Ready to trigger"}]),
        f"Here you are:\n```json\n{PLAIN}\n```\nI hope that it helps.",
        f'<think>An empty list [] or {{"opportunities": []}}?</think>{PLAIN}',
        f"<think>hm</think><action>{PLAIN}</action><question>[]</question>",
        "- `pull-up-account ready-to-trigger account_id= customer_name='Joyce Wu'`",
        "<think>hm</think>\n<action>\npull-up-account ready_to_trigger customer_name=Joyce Wu account_id=?\n</action>",
    ],
)
def test_an_opportunity_is_read_in_every_form(text: str) -> None:
    answer = read_answer(text, CATALOG)

    assert answer.failures == ()
    assert not answer.repaired
    (found,) = answer.opportunities
    assert found.inputs == ACCOUNT.inputs
    assert (found.name, found.status, found.required) == (ACCOUNT.name, ACCOUNT.status, ACCOUNT.required)


@pytest.mark.parametrize(
    "text", [PLAIN[:-1] + ",]", PLAIN.replace('"', "“"), '{"opportunities": ' + PLAIN, "[" + json.dumps(ROW) + ",\n ]"]
)
def test_small_damage_is_repaired(text: str) -> None:
    answer = read_answer(text, CATALOG)

    assert answer.opportunities == (ACCOUNT,)
    assert answer.repaired


@pytest.mark.parametrize("text", ["[]", '{"opportunities": []}', "None."])
def test_nothing_is_a_fine_answer(text: str) -> None:
    assert read_answer(text) == Answer()


@pytest.mark.parametrize("text", ["", "I would wait.\nLet us see.", '{"a": 1}', "[1, 2]"])
def test_an_answer_without_a_prediction_is_a_failure_and_empty(text: str) -> None:
    answer = read_answer(text)

    assert answer.opportunities == ()
    assert ["there is no JSON" in failure for failure in answer.failures] == [True]


def test_what_is_wrong_is_said_in_words() -> None:
    rows = [
        {"name": "dance", "status": "pending"},
        {"name": "send-link", "status": "soon"},
        {"name": "send-link", "status": "pending", "inputs": {"colour": "red"}},
        {"status": "pending"},
    ]

    answer = read_value(rows, CATALOG)

    assert answer.failures == (
        'there is no action "dance"',
        '"soon" is not a status; use one of pending, ready_to_trigger, triggered, repeatable, dismissed',
        '"send-link" has no input "colour"',
        "an opportunity has no name",
    )
    # An invented action stays a prediction, so that it costs agreement; without a status nothing can be said of it.
    assert [one.name for one in answer.opportunities] == ["dance", "send-link"]
    assert answer.unknown_names == ("dance",)


def test_questions_stand_beside_opportunities_and_a_value_may_have_angle_brackets() -> None:
    placeholder = read_answer("<action>pull-up-account pending customer_name=<username></action>", CATALOG)
    assert placeholder.opportunities[0].inputs["customer_name"].value == "<username>"

    by_json = read_answer(json.dumps({"opportunities": [ROW], "questions": ["Your name?", 3, " "]}))
    by_line = read_answer("send-link pending\nQuestion: Your name?")
    alone = read_answer('{"raised_questions": ["Your name?"]}')

    assert [by_json.questions, by_line.questions, alone.questions] == [("Your name?",)] * 3
    assert [len(one.opportunities) for one in (by_json, by_line, alone)] == [1, 1, 0]


def test_an_endless_answer_is_cut_and_what_is_left_out_is_counted() -> None:
    by_json = read_value([{"name": f"a{n}", "status": "pending"} for n in range(10_000)])
    by_line = read_answer("\n".join(f"a{n} pending" for n in range(100)))

    assert len(by_json.opportunities) == len(by_line.opportunities) == MOST_OPPORTUNITIES
    assert (by_json.left_out, by_line.left_out) == (10_000 - MOST_OPPORTUNITIES, 100 - MOST_OPPORTUNITIES)
    assert "only the first 64" in by_json.failures[0]


PIECES = [
    '{"opportunities": [',
    '{"name": "send-link", "status": "pending"',
    '"inputs": {',
    '{"arguments":',
    "send-link pending a=1",
    "question:",
    "<action>",
    "</think>",
    *("}", "]", ",", "\n", "\ud800", "NaN", "1e999", "[" * 50),
]


@given(st.lists(st.text(max_size=12) | st.sampled_from(PIECES)).map("".join))
def test_no_text_raises_anything(text: str) -> None:
    answer = read_answer(text, CATALOG)

    assert answer.opportunities or answer.questions or answer.failures or answer == Answer(repaired=answer.repaired)


# Quadratic reading would take hours.
@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 100_000,
        "<action>" * 50_000,
        "a pending\n" * 50_000,
        '{"opportunities": [' + '{"name": "a", "status": "pending"},' * 20_000,
    ],
)
def test_a_text_that_is_made_to_be_slow_is_read_all_the_same(text: str) -> None:
    answer = read_answer(text, CATALOG)

    assert answer.failures


# -- catalogs, and the YAML files that define them ---------------------------------------------------------------------

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


def domain(folder: Path, text: str, **files: Any) -> timing.Domain:
    """The domain that this text and these JSON files define."""
    for name, content in files.items():
        (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    path = folder / "domain.yaml"
    path.write_text(text, "utf-8")
    return timing.load_domain(path)


def test_a_domain_is_a_yaml_file_and_nothing_else(tmp_path: Path) -> None:
    bakery = domain(tmp_path, BAKERY)
    catalog = bakery.catalog

    assert (catalog.name, catalog.version, bakery.observed) == ("bakery", "1", False)
    assert bakery.speakers == {"guest": "customer", "baker": "professional"}
    assert bakery.phrases == {"openings": {"birthday": ["I need a cake"]}}
    assert catalog.workflows[1] == timing.Workflow("complaint", ("look-up-customer", "call-back"), "trouble")
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
    with_day = [timing.Trigger(3, "order-cake", {"cake": "plum", "day": "monday"})]

    after_four = catalog.with_observed(with_day * 4)
    after_five = catalog.with_observed(with_day * 5)
    once_without = catalog.with_observed([*with_day * 5, timing.Trigger(4, "order-cake", {"day": "friday"})])

    signatures = [one.actions[1].signature.partition(":")[0] for one in (after_four, after_five, once_without)]
    assert signatures == ["order-cake(cake, day?)", "order-cake(cake, day)", "order-cake(cake?, day)"]
    with pytest.raises(BadInputError, match='"dance" is not in the catalog'):
        catalog.with_observed([timing.Trigger(1, "dance")])


ONE = "actions: {a: {}}\n"


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("name: x\n", "has no action", "define at least one action"),
        ("name: x\n" + ONE + "workflow: {}\n", 'unknown key "workflow"', 'did you mean "workflows"?'),
        ("name: x\n" + ONE + "workflows: {w: [a, b]}\n", 'workflow "w" has the action "b"', "define the action"),
        ("name: x\nactions: {a: {}, a: {}}\n", 'the key "a" appears twice', "rename or remove"),
        ("name: x\nactions: {a: {parameters: [day]}}\n", 'actions.a.parameters: there is no slot "day"', "slots.day"),
        ("name: x\nactions: {a: {required: [day]}}\n", 'actions.a.required: "day" is not a parameter', ""),
        ("name: x\nactions: {a: {aliases: [b]}, b: {}}\n", 'more than one action or alias "b"', "rename or remove"),
        ("name: x\nslots: {s: {pattern: '('}}\n" + ONE, "slots.s.pattern: not a regular expression", ""),
        ("name: x\nsources: [{reader: plain, file: nowhere.json}]\n", "nowhere.json can't be read", "check the path"),
        ("name: x\nsources: [{reader: mcp, file: odd.json}]\n", "odd.json: there is no list of tools", "tools/list"),
        ("name: x\nsources: [{reader: ontology, file: odd.json}]\n", "odd.json: actions is not a", "reader"),
        ("name: [\n", "is damaged", ""),
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
        (("mcp",), [[{"name": "a"}, {"name": "a"}]], '0.json: there are two actions of the name "a"'),
    ],
)
def test_no_action_is_defined_twice(tmp_path: Path, readers: tuple[str, ...], files: list[Any], message: str) -> None:
    sources = ", ".join(f"{{reader: {reader}, file: {number}.json}}" for number, reader in enumerate(readers))

    with pytest.raises(BadInputError, match=re.escape(message)):
        domain(tmp_path, f"name: x\nsources: [{sources}]\n", **{str(n): file for n, file in enumerate(files)})
