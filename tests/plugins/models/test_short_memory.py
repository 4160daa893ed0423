"""What a model with a short memory reads of a session: the last message, and what was recalled for it."""

from __future__ import annotations

from agentfw import Message
from agentfw_plugins.models.conversation import remembered


def test_what_a_session_recalled_stands_before_the_last_message() -> None:
    system = Message("system", "Be brief.\n\nYou remember:\n- s1: likes tea\n- s2: likes jazz")
    said = [system, Message("user", "1"), Message("assistant", "Noted."), Message("user", "2")]

    (read,) = remembered(said, "last_message")
    assert read == Message("user", "You remember:\n- s1: likes tea\n- s2: likes jazz\n2")


def test_a_system_message_without_anything_recalled_is_not_read() -> None:
    assert remembered([Message("system", "Be brief."), Message("user", "1")], "last_message") == [Message("user", "1")]
