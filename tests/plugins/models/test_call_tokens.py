"""Calls of models whose tokenizer has tokens for them, and of those that have none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from agentfw import Generation, Message
from agentfw.request import Action, Sampling
from agentfw.turns.turn_builder import TurnBuilder
from agentfw_plugins.models import Chat

SERVE = Action("serve", "Serve a drink.", {"type": "object", "properties": {}})
CALL = '<tool_call>{"name": "serve", "arguments": {}}</tool_call>'
BARE = '{"name": "serve", "parameters": {}}'
TAGGED = "<tool_call>{{ call.function | tojson }}</tool_call>"
LLAMA = '{"name": "{{ call.function.name }}", "parameters": {{ call.function.arguments | tojson }}}'
MISTRAL = "[TOOL_CALLS][{{ call.function | tojson }}]"


@pytest.fixture
def chat(make_model: Callable[..., Path], laboratory: ModuleType, tmp_path: Path) -> Callable[..., Chat]:
    def made(*tokens: str, call: str = TAGGED, special: bool = False) -> Chat:
        from transformers import AutoTokenizer

        template = laboratory.TEMPLATE.replace(TAGGED, call)
        folder = make_model(tmp_path / "model", template=template, weights=False)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.add_tokens(list(tokens), special_tokens=special)
        tokenizer.save_pretrained(folder)
        return Chat(folder)

    return made


def names(chat: Chat, ids: tuple[int, ...]) -> list[str]:
    pieces = chat.pieces(ids)
    generation = Generation("".join(pieces), token_ids=ids, in_text=chat.in_text(ids, pieces))
    return [call.name for call in TurnBuilder.read(generation, Sampling(), {"serve"}, "call_").calls]


def test_a_call_begins_with_the_token_for_it(chat: Callable[..., Chat]) -> None:
    model = chat("<tool_call>")
    own = model.answer(f"I serve.\n{CALL}")
    apart = tuple(token for part in ("I serve.\n<", CALL[1:]) for token in model.answer(part)[:-1])

    assert names(model, own) == ["serve"]
    assert model.text(apart) == f"I serve.\n{CALL}"
    assert names(model, apart) == []
    assert names(model, model.answer(f'It says: "{CALL}"')) == []
    assert names(model, model.answer(BARE)) == []


def test_what_users_and_tools_write_has_no_such_token(chat: Callable[..., Chat]) -> None:
    model = chat("<tool_call>")
    (token,) = set(model.answer("<tool_call>")[:-1])
    asked = [Message("user", CALL), Message("assistant", "Sure.\n" + CALL), Message("tool", CALL), Message("user", "?")]

    prompt = model.prompt(asked, [SERVE])

    assert prompt.count(token) == 1
    assert model.text(prompt).count(CALL) == 3


@pytest.mark.parametrize(
    ("call", "tokens", "calling", "not_calling"),
    [
        (TAGGED, (), CALL, BARE),
        (LLAMA, (), BARE, CALL),
        (LLAMA, ("<tool_call>",), BARE, f"I say:\n{BARE}"),
    ],
    ids=["tags", "json", "json-with-a-token-of-another-format"],
)
def test_the_format_is_that_of_the_template(
    chat: Callable[..., Chat], call: str, tokens: tuple[str, ...], calling: str, not_calling: str
) -> None:
    model = chat(*tokens, call=call)

    assert names(model, model.answer(calling)) == ["serve"]
    assert names(model, model.answer(not_calling)) == []


def test_a_token_without_text_begins_a_call_too(chat: Callable[..., Chat]) -> None:
    model = chat("[TOOL_CALLS]", call=MISTRAL, special=True)
    mark, list_of_one = model._tokenizer.convert_tokens_to_ids("[TOOL_CALLS]"), model.answer(f"[{BARE}]")

    assert names(model, (mark, *list_of_one)) == ["serve"]
    assert names(model, list_of_one) == []
