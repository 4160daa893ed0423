"""Predictions out of what a model wrote: every form that is meant beyond doubt is read, and no text raises anything."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw_papers.timing import Action, Catalog, Input, Opportunity, Parameter, read_answer, read_value
from agentfw_papers.timing.reading import MOST_OPPORTUNITIES, Answer

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
        json.dumps({"opportunities": [ROW]}),
        json.dumps({"proactive_action_opportunities": [NAMED_AS_IN_THE_PAPER]}),
        json.dumps({"proactive_annotations": NAMED_AS_IN_THE_PAPER}),
        json.dumps(ROW),
        json.dumps({"name": "predict", "arguments": {"opportunities": [ROW]}}),
        json.dumps([ROW | {"inputs": {"customer_name": "Joyce Wu", "account_id": None}}]),
        json.dumps([ROW | {"required": {"customer_name": "Joyce Wu", "account_id": "?"}, "optional": None}]),
        json.dumps([ROW | {"name": "Pull up account", "status": "Ready to trigger"}]),
        f"Here you are:\n```json\n{PLAIN}\n```\nI hope that it helps.",
        f'<think>An empty list [] or {{"opportunities": []}}?</think>{PLAIN}',
        f"<think>hm</think><action>{PLAIN}</action><question>[]</question>",
        f"<action>{PLAIN}",
        f"First I thought of [] but then {PLAIN}",
        "pull-up-account READY_TO_TRIGGER customer_name=Joyce Wu account_id=?",
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
    "text",
    [
        PLAIN[:-1] + ",]",
        PLAIN[:-2],
        PLAIN.replace('"', "“"),
        '{"opportunities": ' + PLAIN + ",}",
        '{"opportunities": ' + PLAIN,
        "[" + json.dumps(ROW) + ",\n ]",
    ],
)
def test_small_damage_is_repaired(text: str) -> None:
    answer = read_answer(text, CATALOG)

    assert answer.opportunities == (ACCOUNT,)
    assert answer.repaired


@pytest.mark.parametrize("text", ["[]", '{"opportunities": []}', "nothing", "None.", "<action>[]</action>"])
def test_nothing_is_a_fine_answer(text: str) -> None:
    assert read_answer(text) == Answer()


@pytest.mark.parametrize("text", ["", "I would wait.\nLet us see.", "{", '{"a": 1}', "[1, 2]", "<action>"])
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
        '["' * 100_000,
        "<action>" * 50_000,
        "a pending " + "x=" * 100_000,
        "a pending\n" * 50_000,
        '{"opportunities": [' + '{"name": "a", "status": "pending"},' * 20_000,
    ],
)
def test_a_text_that_is_made_to_be_slow_is_read_all_the_same(text: str) -> None:
    answer = read_answer(text, CATALOG)

    assert answer.failures
