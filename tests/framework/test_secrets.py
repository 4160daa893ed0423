"""Secrets are struck out of texts, streams and values in every form; what is a secret is known by its name or type."""

from __future__ import annotations

import base64
import html
import json
import random
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from pydantic import BaseModel, SecretStr

from agentfw.boundary.secrets import MASK, Pieces, Secrets, is_secret_name, secrets_in, strike, struck
from agentfw.episode import Message

KEYS = ["hunter2/x", "+k ö9 z/", "sk-abcDEF0123456789+/==zz", "pä\"s\\s wörd'<&>%", "line one\nline two"]


@pytest.fixture(params=KEYS)
def key(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def secrets(key: str) -> Secrets:
    secrets = Secrets()
    secrets.add(key)
    return secrets


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "a part of a host's name": str.lower,
    "path": quote,
    "form": quote_plus,
    "url twice": lambda key: quote(quote(key, safe=""), safe=""),
    "json of unicode": lambda key: json.dumps(key, ensure_ascii=False),
    "json twice": lambda key: json.dumps(json.dumps(key)),
    "json in html": lambda key: html.escape(json.dumps(key)),
    "repr of bytes": lambda key: repr(key.encode()),
    "repr of json": lambda key: repr(json.dumps(key)),
    "basic authorization": lambda key: base64_of(f"ada:{key}"),
    "url-safe base64, moved on": lambda key: base64.urlsafe_b64encode(f"x{key}".encode()).decode(),
    "in the middle of base64": lambda key: base64_of(f"ad:{key}more"),
    "base64 in a URL": lambda key: quote(base64_of(f"a:{key}"), safe=""),
    "form in a URL": lambda key: quote(quote_plus(key), safe=""),
    "on one line": lambda key: " ".join(key.split()),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_struck_in_every_form_wherever_a_stream_is_cut(key: str, secrets: Secrets, form: str) -> None:
    text = f"before [{FORMS[form](key)}] after"

    struck_out = strike(text)

    assert MASK in struck_out
    assert struck_out.startswith("before [")
    assert struck_out.endswith("] after")
    assert len(struck_out) < len(f"before [{MASK}] after") + 24  # quotes, and what base64 makes of what is beside it
    for seed in range(10):
        chance, pieces, passed, place = random.Random(seed), Pieces(), [], 0
        while place < len(text):
            until = place + chance.randint(1, 5)
            passed.append(pieces.feed(text[place:until]))
            place = until
        assert "".join([*passed, pieces.end()]) == struck_out


def test_what_is_no_secret_stays(secrets: Secrets) -> None:
    text = "hunter, sk-abc and line one aren't secrets"

    assert strike(text) is text
    message = Message("user", text)
    assert struck(message) is message


def test_short_texts_are_not_struck() -> None:
    secrets = Secrets()
    secrets.add("a", "abcde", "", "   ", MASK)

    assert strike(f"a b abcde {MASK}") == f"a b abcde {MASK}"


def test_a_secret_within_another_is_no_reason_to_show_the_rest() -> None:
    secrets = Secrets()
    secrets.add("swordfish")
    secrets.add("swordfish-and-chips")
    later = Secrets()
    later.add(" of another host\n")

    assert strike("swordfish-and-chips") == MASK
    assert strike("of another host") == MASK, "as it is, without the line break of its file"
    pieces = Pieces()
    assert pieces.feed("a swordfish") + pieces.end() == f"a {MASK}", "also where the longer one could have followed"


def test_values_are_struck_and_numbers_stay() -> None:
    secrets = Secrets()
    secrets.add("12345678")

    value = {"number": 12345678, "12345678": [1.5, "pin 12345678", {"deep": ("12345678",)}]}

    assert struck(value) == {"number": 12345678, MASK: [1.5, f"pin {MASK}", {"deep": (MASK,)}]}
    assert struck(Message("user", "12345678")) == Message("user", MASK)


def test_variables_that_look_like_secrets_are_struck_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "acme-0123456789")
    monkeypatch.setenv("POSTGRES_PASSWORD", "postgres")
    monkeypatch.setenv("ACME_ADDRESS", "http://localhost:8000")
    secrets = Secrets()

    assert strike("acme-0123456789 postgres http://localhost:8000") == f"{MASK} postgres http://localhost:8000"
    del secrets


def test_names_say_what_is_a_secret() -> None:
    secret = ["api_key", "token", "GITHUB_TOKEN", "x-api-key", "Authorization", "db.password"]
    other = ["max_tokens", "pad_token", "sort_key", "keyboard", "secretary", "monkey", "limit"]

    assert [name for name in secret + other if is_secret_name(name)] == secret


class Server(BaseModel):
    headers: dict[str, str] = {}
    token: str = "none-needed"


class Told(BaseModel):
    api_key: SecretStr = SecretStr("")
    api_key_env: str = "ACME_ONE"
    pass_env: tuple[str, ...] = ("PATH", "ACME_TOKEN")
    token: str = ""
    max_tokens: int = 5
    servers: list[Server] = []


def test_the_secrets_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_ONE", "from the environment")
    monkeypatch.setenv("ACME_TOKEN", "passed on")
    servers = [Server(headers={"Authorization": "Bearer x", "Accept": "json"}, token="of a server"), Server()]

    found = filter(None, secrets_in(Told(api_key=SecretStr("typed"), token="plain", servers=servers)))

    assert [*found] == ["typed", "from the environment", "passed on", "plain", "Bearer x", "of a server"]
