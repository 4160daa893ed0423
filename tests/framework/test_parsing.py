"""Reading calls out of what a model wrote: the shapes that are understood, and what becomes of the rest."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from agentfw.episode import Call
from agentfw.request import NO_CALLS, CallsInText
from agentfw.turns.parsing import Parsed, parse_calls

NAMES = ["open", "handle", "write", "open_all"]
OPEN = {"name": "open", "arguments": {"message": 3}}
TAGGED = f"<tool_call>{json.dumps(OPEN)}</tool_call>"


def calls(text: str) -> list[tuple[str, object]]:
    parsed = parse_calls(text, NAMES)
    assert parsed.failures == []
    return [(call.name, call.arguments) for call in parsed.calls]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(OPEN),
        f"<think>3, I think</think>\n<tool_call>\n{json.dumps(OPEN)}\n</tool_call>",
        f"<tool_call>{json.dumps(OPEN)}",  # it ran out of tokens after the call
        json.dumps({"name": "open", "parameters": {"message": 3}}),
        json.dumps({"name": "open", "arguments": '{"message": 3}'}),
        json.dumps({"type": "function", "id": "x", "function": {"name": "open", "arguments": '{"message": 3}'}}),
        json.dumps({"tool_calls": [{"type": "function", "function": {"name": "open", "arguments": '{"message": 3}'}}]}),
        f"<think>Let me see: <tool_call></think>{json.dumps(OPEN)}",
        f"Sure. <tool_call>{json.dumps(OPEN)}</tool_call>",
        f'He wrote "now". So:\n<tool_call>{json.dumps(OPEN)}</tool_call>',
        f"I ran `ls`, and then\n```sh\nls\n```\n<tool_call>{json.dumps(OPEN)}</tool_call>",
    ],
)
def test_the_shapes_that_models_write(text: str) -> None:
    assert calls(text) == [("open", {"message": 3})]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<open message="3"/>', ("open", {"message": "3"})),
        ('<open message="a &amp; b"></open>', ("open", {"message": "a & b"})),
        ("<write>Dear all &lt;3</write>", ("write", {"text": "Dear all <3"})),
        ('<tool_call><open message="3"/></tool_call>', ("open", {"message": "3"})),
        ('It is urgent.\n<open message="3"/>', ("open", {"message": "3"})),
    ],
)
def test_elements_named_like_an_action(text: str, found: tuple[str, object]) -> None:
    assert calls(text) == [found]


@pytest.mark.parametrize("arguments", [{}, {"arguments": "  "}, {"arguments": None}])
def test_a_call_without_arguments_has_none(arguments: dict[str, Any]) -> None:
    assert calls(json.dumps({"name": "write", **arguments})) == [("write", {})]


def test_several_calls_keep_their_order_and_have_ids_of_their_own() -> None:
    text = f'<handle message="1"/>\n{json.dumps(OPEN)}, <tool_call>{{"name": "write"}}</tool_call>'
    parsed = parse_calls(text, NAMES)
    assert [call.name for call in parsed.calls] == ["handle", "open", "write"]
    assert len({call.id for call in parsed.calls}) == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "if (x) { y } else { z }",
        '{"mood": "fine"}',
        "The answer is ```42```.",
        "```python\nbook = {'name': 'open'}\n```",
        "a < b and b > c <other/>",
        # Somebody else's words, code and sentences.
        f'The mail says: "{TAGGED}" and I refuse.',
        f'The mail says: "Hello.\n{TAGGED}',
        f"The mail says: “Hello. {TAGGED}",
        f"The mail says:\n{TAGGED}\nI refuse.",
        f"The mail says:\n> {TAGGED}",
        f"The mail says:\n\n    {TAGGED}",
        f"`{TAGGED}` is what a call looks like.",
        f"```\n{TAGGED}\n```",
        f"Never write {TAGGED}",
        f"{TAGGED} is in the mail.",
        f"I will look at it first. {json.dumps(OPEN)} That's all.",
        f"The mail is:\n{json.dumps(OPEN)}",
        'It says <open message="3"/>',
        "{not json} {" + json.dumps(OPEN),
        "def f() { return {}; }\n" * 50 + json.dumps(OPEN),
    ],
)
def test_what_is_no_call_is_no_failure_either(text: str) -> None:
    assert parse_calls(text, NAMES) == Parsed(rest=text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<tool_call>open 3</tool_call>", "without JSON in it"),
        (f"```json\n{json.dumps(OPEN, indent=2)}\n```", "in a code block"),
        ('```json\n{"name": "open", "arguments": {"message": 3\n```', "in a code block"),
        ('{"name": "opne", "arguments": {}}', 'did you mean "open"'),
        ('{"name": 7}', "without a name"),
        ('{"name": "open", "arguments": [3]}', "must be an object"),
        ('{"name": "open", "arguments": "3, I think"}', "must be an object"),
        ("<tool_call>3</tool_call>", "must be an object with a name"),
        ('{"name": "open", "arguments": {"message": NaN}}', "not plain JSON"),
        ('<tool_call>{"name": "open", "arguments": {"message": -Infinity}}</tool_call>', "without JSON in it"),
        ('{"name": "open", "arguments": ' + '{"a":' * 70 + "1" + "}" * 71, "nested too deep"),
    ],
)
def test_what_is_meant_as_a_call_and_is_none_is_a_failure_in_words(text: str, words: str) -> None:
    parsed = parse_calls(text, NAMES)
    assert parsed.calls == []
    assert words in " ".join(parsed.failures)


def test_only_the_formats_of_the_model_count() -> None:
    tags = CallsInText(frozenset(("tags",)))

    assert [call.name for call in parse_calls(TAGGED, NAMES, tags).calls] == ["open"]
    for text in (json.dumps(OPEN), '<open message="3"/>'):
        assert parse_calls(text, NAMES, tags) == Parsed(rest=text)
    for text in (TAGGED, json.dumps(OPEN), f"```json\n{json.dumps(OPEN)}\n```"):
        assert parse_calls(text, NAMES, NO_CALLS) == Parsed(rest=text)


def test_where_tokens_show_the_calls_spelled_ones_are_text() -> None:
    text = f"It says:\n{TAGGED}\n{TAGGED}\nDone."
    second = text.rindex(TAGGED)

    parsed = parse_calls(text, NAMES, CallsInText(places=frozenset((second,))))

    assert len(parsed.calls) == 1
    assert parsed.rest == text[:second] + "\nDone."
    assert parse_calls(text, NAMES, CallsInText(places=frozenset())).calls == []
    quoted = f'It says "{TAGGED}".'
    assert parse_calls(quoted, NAMES, CallsInText(places=frozenset((9,)))).calls == []
    # The token itself may have no text, as in Mistral's format.
    bare = json.dumps([OPEN])
    assert len(parse_calls(bare, NAMES, CallsInText(places=frozenset((0, len(bare))))).calls) == 1


def test_quotation_marks_in_a_call_quote_nothing_after_it() -> None:
    odd = f'<tool_call>{json.dumps({"name": "write", "arguments": {"text": "a ` “ x"}})[:-3]}\\""}}}}</tool_call>'

    assert [call.name for call in parse_calls(f"{odd}\n{TAGGED}", NAMES).calls] == ["write", "open"]


def test_half_a_character_never_gets_into_a_call() -> None:
    parsed = parse_calls(r'{"name": "write", "arguments": {"te\ud800xt": "a\udfffb", "smile": "\ud83d\ude00"}}', NAMES)
    assert parsed.calls[0].arguments == {"te\ufffdxt": "a\ufffdb", "smile": "😀"}
    json.dumps(dict(parsed.calls[0].arguments), ensure_ascii=False).encode()


def test_brackets_in_an_argument_are_text() -> None:
    """A formula or a drawing has as many brackets as it likes, also of an element named like an action."""
    text = "{{{[[[" * 100 + ' <open message="3"/> '
    assert calls(json.dumps({"name": "write", "arguments": {"text": text}})) == [("write", {"text": text})]


def test_a_model_that_lost_the_thread_is_cut_short() -> None:
    for one in (json.dumps(OPEN), "<open/>", f"<tool_call>{json.dumps(OPEN)}</tool_call>", "<tool_call>x</tool_call>"):
        parsed = parse_calls(one * 1000, NAMES)
        assert len(parsed.calls) <= 64
        assert len(parsed.failures) <= 65
        assert "the rest was not read" in parsed.failures[-1]
    assert len(parse_calls(json.dumps([1] * 100_000), NAMES).failures) == 0
    assert len(parse_calls(f"<tool_call>{[1] * 100_000}</tool_call>", NAMES).failures) <= 65


MEGABYTE = 1_000_000
ADVERSARIAL: dict[str, Callable[[], str]] = {
    "open objects": lambda: '{"a":' * (MEGABYTE // 5),
    "nested, then long and never closed": lambda: '{"a":' * 60 + "[" + "1," * (MEGABYTE // 2),
    "one number": lambda: '{"name": ' + "1" * MEGABYTE,
    "fences with braces": lambda: '```{"```' * (MEGABYTE // 8),
    "elements": lambda: "<open/>" * (MEGABYTE // 7),
    "an element full of spaces": lambda: "<open" + " " * MEGABYTE,
    "open objects in a tag": lambda: "<tool_call>" + '{"a":' * (MEGABYTE // 6),
    "open lists in a text": lambda: json.dumps({"name": "open", "arguments": "[" * (MEGABYTE // 2)}),
    "a long wrong name": lambda: '{"name": "' + "open" * (MEGABYTE // 5) + '"}',
    "many arguments": lambda: json.dumps({"name": "open", "arguments": {f"k{n}": n for n in range(60_000)}}),
    "surrogates": lambda: '{"name": "open", "arguments": {"a": "' + r"\ud800" * (MEGABYTE // 6) + '"}}',
}


@pytest.mark.parametrize("make", ADVERSARIAL.values(), ids=ADVERSARIAL)
def test_a_megabyte_of_anything_is_read_in_time(make: Callable[[], str]) -> None:
    text = make()
    began = time.process_time()
    parsed = parse_calls(text, NAMES)
    # A second or less; hours where it is quadratic.
    assert time.process_time() - began < 60
    assert len(parsed.calls) <= 64
    assert sum(map(len, parsed.failures)) < 100_000
    assert all(isinstance(call, Call) for call in parsed.calls)
