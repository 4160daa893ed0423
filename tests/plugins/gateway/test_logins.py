"""A browser, which sends no key, looks at the recorded sessions after a login."""

from __future__ import annotations

import httpx
import pytest

from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.live import Limits

from .conftest import Serve, Served

BROWSER = {"accept": "text/html"}


@pytest.fixture
def gateway(serve: Serve, keys: KeyFile) -> Served:
    return serve(Limits(keys=("the-operators",), key_file=keys.path, hosts=("gate.lan",), once="a-link"))


def looked(client: httpx.Client, gateway: Served) -> str:
    """Where a browser ends that looks at the sessions."""
    return client.get(f"{gateway.url}/view/", headers=BROWSER).url.path


def test_a_link_lets_one_browser_in_once(gateway: Served) -> None:
    with httpx.Client(follow_redirects=True) as first, httpx.Client(follow_redirects=True) as second:
        before = looked(first, gateway)
        entered = first.get(f"{gateway.url}/login?once=a-link")
        again = second.get(f"{gateway.url}/login?once=a-link")
        wrong = second.get(f"{gateway.url}/login?once=anothér")

        assert before == "/login"
        assert (entered.status_code, entered.url.path, looked(first, gateway)) == (200, "/view/", "/view/")
        assert (again.status_code, wrong.status_code, looked(second, gateway)) == (403, 403, "/login")
    cookie = entered.history[0].headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/view"))


def test_the_operators_key_in_the_form_does_and_no_other(gateway: Served, keys: KeyFile) -> None:
    ada = keys.add("ada")
    with httpx.Client(follow_redirects=True) as client:
        refused = [client.post(f"{gateway.url}/login", data={"key": key}) for key in (ada, "the-operator", "")]
        there = looked(client, gateway)
        elsewhere = {"origin": "http://evil.example"}
        from_a_page = client.post(f"{gateway.url}/login", data={"key": "the-operators"}, headers=elsewhere)
        entered = client.post(f"{gateway.url}/login", data={"key": "the-operators"})

    assert [answer.status_code for answer in refused] == [403] * 3
    assert there == "/login"
    assert from_a_page.status_code == 403
    assert entered.url.path == "/view/"


def test_the_cookie_opens_the_recorded_sessions_alone_and_under_known_names_alone(gateway: Served) -> None:
    entered = httpx.get(f"{gateway.url}/login?once=a-link", headers={"host": "gate.lan"})
    cookie = {"cookie": entered.headers["set-cookie"].partition(";")[0]}

    def status(path: str, host: str = "gate.lan", method: str = "GET") -> int:
        return httpx.request(method, f"{gateway.url}{path}", headers={"host": host, **cookie}).status_code

    assert status("/view/") == 200
    assert status("/view/", host="localhost") == 200
    assert status("/view/", host="evil.example") == 403
    assert status("/login", host="evil.example") == 403
    assert [status("/sessions"), status("/memory?user=ada"), status("/metrics"), status("/v1/models")] == [401] * 4
    assert status("/memory?user=ada", method="DELETE") == 401
