"""Secrets in a text are masked, and what only looks like one stays."""

from __future__ import annotations

import time

import pytest

from agentfw_memory.writing.secrets import has_secret, masked


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("my password is hunter2, remember the milk", "my password is [masked: password], remember the milk"),
        ("the wifi password is 'Blue Horse 7'", "the wifi password is '[masked: password]'"),
        ("swordfish is my password for the forum", "[masked: password] is my password for the forum"),
        ("Mein Passwort lautet Sommer2024!", "Mein Passwort lautet [masked: password]!"),
        ("我的密码是abc123", "我的密码是[masked: password]"),
        ("https://ada:p@ss@git.example.com/a.git", "https://ada:[masked: key]@git.example.com/a.git"),
        ("Pay with 4111 1111 1111 1111, please", "Pay with [masked: card], please"),
        ("recovery phrase: legal winner thank year wave sausage", "recovery phrase: [masked: password]"),
        ("seed phrase: one two three four password hunter2!xyz", "seed phrase: [masked: password]"),
        ("use zX9kQ2mVb7RtY4wLp8NsJ3hGd6FcA1eU here", "use [masked: entropy] here"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nok", "[masked: key]\nok"),
    ],
)
def test_a_secret_is_masked_and_the_rest_stays(text: str, left: str) -> None:
    found = masked(text)

    assert found.text == left
    assert found.counts.total() == 1
    assert has_secret(text)
    assert has_secret(found.text)


@pytest.mark.parametrize(
    "text",
    [
        "the token is expired",
        "my password is not something that I tell",
        "The key is under the mat, and I have 5 tokens",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b is the commit",
        "/home/ada/projects/website/templates/index.html",
        "5e61f47a-09ff-4b75-9fe7-611ba6160995",
        "4111 1111 1111 1112",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert masked(text).text == text


def test_a_long_text_without_spaces_is_read_in_no_time() -> None:
    began = time.process_time()
    assert masked("茶a1" * 7_000 + " hunter2 is my password").text.endswith("[masked: password] is my password")
    assert time.process_time() - began < 2


def test_only_the_kinds_that_are_asked_for_are_masked() -> None:
    text = "my password is hunter2 and my card 4111111111111111"

    assert masked(text, ("card",)).text == "my password is hunter2 and my card [masked: card]"
