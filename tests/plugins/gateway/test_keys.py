"""Who has a key gets at the sessions of that key, for as long as it has one."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest
from command_line import Agentfw

from agentfw.errors import UsageError
from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.live import Limits

from .conftest import Serve
from .test_sessions import body


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def test_a_key_is_stored_as_a_digest_that_only_its_owner_can_read(keys: KeyFile) -> None:
    secret = keys.add("ada")

    assert keys.find(secret) == keys.keys()[0]
    assert keys.find(f"{secret} ") is None
    assert secret.removeprefix("agentfw-") not in keys.path.read_text()
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["", "a b", "a:b", "../x", "\u00e4", "a" * 101])
def test_a_name_that_could_be_taken_for_another_is_refused(keys: KeyFile, name: str) -> None:
    with pytest.raises(UsageError, match="can't be the name"):
        keys.add(name, user="ada")


def test_two_keys_with_the_same_name_are_refused(keys: KeyFile) -> None:
    keys.add("ada")

    with pytest.raises(UsageError, match="already"):
        keys.add("ada")


@pytest.mark.slow
def test_a_key_that_is_taken_back_is_refused_at_once_and_a_lost_file_lets_nobody_in(
    serve: Serve, keys: KeyFile
) -> None:
    ada, bob = bearer(keys.add("ada")), bearer(keys.add("bob"))
    gateway = serve(Limits(key_file=keys.path))
    url = f"{gateway.url}/v1/models"

    before = httpx.get(url, headers=ada).status_code
    keys.revoke("ada")
    after = [httpx.get(url, headers=headers).status_code for headers in (ada, bob, {})]
    keys.path.write_text("[")
    damaged = httpx.get(url, headers=bob).status_code
    keys.path.unlink()
    lost = [httpx.get(url, headers=headers).status_code for headers in (bob, {})]

    assert before == 200
    assert after == [401, 200, 401]
    assert damaged == 503
    assert lost == [401, 401]


@pytest.mark.slow
def test_a_key_has_its_own_limits(serve: Serve, keys: KeyFile) -> None:
    often, rare = bearer(keys.add("often")), bearer(keys.add("rare", per_minute=1))
    gateway = serve(Limits(key_file=keys.path))

    def asked(headers: dict[str, str]) -> httpx.Response:
        return httpx.post(f"{gateway.session('tea')}/chat/completions", json=body("hi"), headers=headers)

    found, refused = asked(rare), asked(rare)

    assert found.status_code == 200
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 61
    assert [asked(often).status_code for _ in range(4)] == [200] * 4


def test_keys_are_made_listed_and_taken_back_by_command(agentfw: Agentfw, tmp_path: Path) -> None:
    def command(*arguments: str) -> Any:
        return agentfw("serve", "keys", *arguments, "--json").json

    made = command("add", "ada", "--per-minute", "60")
    listed = command("list")
    command("revoke", "ada")

    assert made["key"].startswith("agentfw-")
    assert [(one["name"], one["user"], one["per_minute"]) for one in listed] == [("ada", "ada", 60)]
    assert made["key"] not in json.dumps(listed)
    assert command("list") == []
    assert (tmp_path / "runs" / "keys.json").exists()
