"""How the shipped model is talked to: without transformers the same tokens as with it, also of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentfw.episode import Call, Message
from agentfw.errors import SettingsError
from agentfw_plugins.models import Chat, locate
from agentfw_plugins.models.conversation import remembered
from agentfw_plugins.models.small_model import SmallChat

TALK = [
    Message("system", "You keep a calendar."),
    Message("user", "conflict: week 1"),
    Message("assistant", "A1 due today +8 8; A 8", (Call("decide", {"accept": "A"}, "1.0"),)),
    Message("tool", "accepted", answers="1.0"),
    Message("user", 'feedback: right, A is kept. "Yes." — Zoë\'s Ünïcode 日本\nA: Review | start=11:00 min=30'),
]


@pytest.fixture(scope="module")
def small() -> SmallChat:
    return SmallChat(locate("tiny"))


@pytest.fixture(scope="module")
def whole() -> Chat:
    pytest.importorskip("transformers")
    return Chat(locate("tiny"))


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_a_prompt_has_the_same_tokens_either_way(small: SmallChat, whole: Chat, length: int) -> None:
    assert small.prompt(TALK[:length]) == whole.prompt(TALK[:length])


@pytest.mark.parametrize(
    "text", ["A1 due today +12 12, A2 in person -3 9; A 9\nB 0; A 9", "", "日本 +7 ü", "<|end|> <|user|>"]
)
def test_an_answer_has_the_same_tokens_and_pieces_either_way(small: SmallChat, whole: Chat, text: str) -> None:
    ids = small.answer(text)

    assert ids == whole.answer(text)
    assert small.pieces(ids) == whole.pieces(ids)
    assert "".join(small.pieces(ids)) == text


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("I see.<tool_call>1</tool_call>\nSo B.<tool_call>2</tool_call>", "So B.<tool_call>2</tool_call>"),
        ("<tool_call>1</tool_call><tool_call>2</tool_call> Done.", "<tool_call>2</tool_call>"),
        ("So B.<tool_call>2</tool_call>", "So B.<tool_call>2</tool_call>"),
        ("No call at all.", "No call at all."),
        ("", ""),
    ],
)
def test_of_its_last_answer_it_reads_the_last_call_and_what_led_to_it(
    small: SmallChat, whole: Chat, answer: str, read: str
) -> None:
    talk = [TALK[0], Message("assistant", answer), TALK[4]]

    assert small.prompt(talk) == whole.prompt(talk) == small.prompt([TALK[0], Message("assistant", read), TALK[4]])


def test_a_model_with_another_template_is_refused_by_name(small_model: Path) -> None:
    with pytest.raises(SettingsError, match="another chat template") as caught:
        SmallChat(small_model)

    assert "--policy transformers" in caught.value.fix


def test_what_a_session_recalled_stands_before_the_last_message() -> None:
    system = Message("system", "Be brief.\n\nYou remember:\n- s1: likes tea\n- s2: likes jazz")
    said = [system, Message("user", "1"), Message("assistant", "Noted."), Message("user", "2")]

    (read,) = remembered(said, "last_message")
    assert read == Message("user", "You remember:\n- s1: likes tea\n- s2: likes jazz\n2")


def test_a_system_message_without_anything_recalled_is_not_read() -> None:
    assert remembered([Message("system", "Be brief."), Message("user", "1")], "last_message") == [Message("user", "1")]
