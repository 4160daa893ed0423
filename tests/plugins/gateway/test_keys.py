"""Who has a key gets at the sessions of that key, for as long as it has one. A browser, which sends none, logs in."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from chat_server import completion
from command_line import Agentfw

from agentfw.errors import UsageError
from agentfw_plugins.gateway.keys import KeyFile, is_weak
from agentfw_plugins.gateway.live import Limits
from agentfw_plugins.protocols import BadRequest

from .conftest import CLIENT, Serve, Served
from .upstream import passing


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def test_a_key_is_stored_once_as_a_digest_that_only_its_owner_can_read(keys: KeyFile) -> None:
    secret = keys.add("ada")

    assert keys.find(secret) == keys.keys()[0]
    assert keys.find(f"{secret} ") is None
    assert [is_weak(one) for one in ("a" * 40, "x7Kp_t2Wq", secret)] == [True, True, False]
    assert secret.removeprefix("agentfw-") not in keys.path.read_text()
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="already"):
        keys.add("ada")
    with ThreadPoolExecutor(8) as at_once:
        list(at_once.map(lambda number: KeyFile(keys.path).add(f"team{number}"), range(8)))
    assert {key.name for key in keys.known().values()} == {"ada", *(f"team{number}" for number in range(8))}
    for name in ("", "a:b", "../x", "\u00e4", "a" * 101):
        with pytest.raises(UsageError, match="can't be the name"):
            keys.add(name, user="ada")


def test_a_key_that_is_taken_back_is_refused_at_once_and_a_lost_file_lets_nobody_in(
    serve: Serve, keys: KeyFile
) -> None:
    ada, bob = bearer(keys.add("ada")), bearer(keys.add("bob"))
    gateway = serve(Limits(key_file=keys.path))
    url = f"{gateway.url}/v1/models"

    before = CLIENT.get(url, headers=ada).status_code
    keys.revoke("ada")
    after = [CLIENT.get(url, headers=headers).status_code for headers in (ada, bob, {})]
    keys.path.write_text("[")
    damaged = CLIENT.get(url, headers=bob).status_code
    keys.path.unlink()
    lost = [CLIENT.get(url, headers=headers).status_code for headers in (bob, {})]

    assert before == 200
    assert after == [401, 200, 401]
    assert damaged == 503
    assert lost == [401, 401]


def test_a_key_has_its_own_limits(serve: Serve, keys: KeyFile) -> None:
    often, rare = keys.add("often"), keys.add("rare", per_minute=1)
    gateway = serve(Limits(key_file=keys.path))

    found, refused = (gateway.ask("tea", "hi", key=rare) for _ in range(2))

    assert (found.status_code, refused.status_code) == (200, 429)
    assert 1 <= int(refused.headers["retry-after"]) <= 61
    assert [gateway.ask("tea", "hi", key=often).status_code for _ in range(4)] == [200] * 4
    assert keys.left_after(keys.keys()[1], 0.5, seconds=3600.0) == 0.0, "what wasn't asked for doesn't add up"
    assert keys.left_after(keys.keys()[1], 0.5, seconds=30.0) == 0.0
    with pytest.raises(BadRequest) as too_early:
        keys.left_after(keys.keys()[1], 0.0, seconds=29.5)
    assert int(too_early.value.headers["retry-after"]) >= 60 - 29.5, "the advice is enough"


def test_a_key_of_the_gateway_never_reaches_the_provider(keys: KeyFile, tmp_path: Path) -> None:
    secret = keys.add("ada")
    with passing(tmp_path / "there", completion(), limits=Limits(key_file=keys.path, upstream_key="either")) as gateway:
        body = {"model": "served", "messages": [{"role": "user", "content": "Which tea?"}]}
        answer = CLIENT.post(f"{gateway.url}/v1/chat/completions", json=body, headers=bearer(secret))

    assert answer.status_code == 200
    assert secret not in json.dumps(gateway.server.headers)


def test_a_command_without_a_key_is_told_where_to_put_one(serve: Serve, keys: KeyFile, agentfw: Agentfw) -> None:
    keys.add("ada")

    refused = agentfw("feedback", "tea", "good", "--url", serve(Limits(key_file=keys.path)).url)

    assert refused.code != 0
    assert "environment variable AGENTFW_KEY" in refused.err


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


BROWSER = {"accept": "text/html"}


@pytest.fixture
def gateway(serve: Serve, keys: KeyFile) -> Served:
    return serve(Limits(keys=("the-operators",), key_file=keys.path, hosts=("gate.lan",), once="a-link"))


def looked(client: httpx.Client, gateway: Served) -> str:
    return client.get(f"{gateway.url}/view/", headers=BROWSER).url.path


def test_a_link_lets_one_browser_in_once_and_the_form_takes_the_operators_key_alone(
    gateway: Served, keys: KeyFile
) -> None:
    ada, login = keys.add("ada"), f"{gateway.url}/login"
    # As patient as the other tests, and without the certificates of the machine, which take long to read.
    options: dict[str, Any] = {"follow_redirects": True, "timeout": CLIENT.timeout, "verify": False}
    with httpx.Client(**options) as first, httpx.Client(**options) as second:
        before = looked(first, gateway)
        entered = first.get(f"{login}?once=a-link")
        wrong = [second.get(f"{login}?once={link}").status_code for link in ("a-link", "anothér")]
        wrong += [second.post(login, data={"key": key}).status_code for key in (ada, "the-operator", "")]
        elsewhere = {"origin": "http://evil.example"}
        from_a_page = second.post(login, data={"key": "the-operators"}, headers=elsewhere)
        still_out = looked(second, gateway)
        by_key = second.post(login, data={"key": "the-operators"})

    assert (before, still_out) == ("/login", "/login")
    assert (entered.status_code, entered.url.path, by_key.url.path) == (200, "/view/", "/view/")
    assert wrong == [403] * 5
    assert from_a_page.status_code == 403
    cookie = entered.history[0].headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/view"))


def test_the_cookie_opens_the_recorded_sessions_alone_and_under_known_names_alone(
    gateway: Served, keys: KeyFile
) -> None:
    entered = CLIENT.get(f"{gateway.url}/login?once=a-link", headers={"host": "gate.lan"})
    cookie = {"cookie": entered.headers["set-cookie"].partition(";")[0]}

    def status(path: str, host: str = "gate.lan", method: str = "GET") -> int:
        return CLIENT.request(method, f"{gateway.url}{path}", headers={"host": host, **cookie}).status_code

    assert status("/view/") == 200
    assert status("/view/", host="localhost") == 200
    assert status("/view/", host="evil.example") == 403
    assert status("/login", host="evil.example") == 403
    assert [status("/sessions"), status("/memory?user=ada"), status("/metrics"), status("/v1/models")] == [401] * 4
    assert CLIENT.get(f"{gateway.url}/view/", headers=bearer(keys.add("ada"))).status_code == 403, "of everybody"
    assert status("/memory?user=ada", method="DELETE") == 401
