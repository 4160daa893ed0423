"""A gateway with a memory learns from what its users say, and shows each what it keeps of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from .conftest import EARS, Serve, Served
from .endless_upstream import until
from .test_sessions import ask, body


@pytest.fixture
def gateway(serve: Serve) -> Served:
    return serve(memories=[EARS])


def of(gateway: Served, user: str, **more: Any) -> list[dict[str, Any]]:
    answer = httpx.get(f"{gateway.url}/memory", params={"user": user}, **more)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def told(gateway: Served, text: str, user: str) -> None:
    """Say something, and wait until it was heard."""
    session = f"{user}-{time.monotonic_ns()}"
    ask(gateway.session(session), body(text, user=user))
    until(lambda: text in [one["text"] for one in of(gateway, user)])


def test_users_read_correct_and_delete_what_is_kept(gateway: Served) -> None:
    told(gateway, "I like green tea.", "ada")
    told(gateway, "My name is Ada.", "ada")
    name, tea = of(gateway, "ada")
    ada, url = {"x-agentfw-user": "ada"}, f"{gateway.url}/memory"

    corrected = httpx.patch(f"{url}/{tea['id']}", json={"text": "I like black tea."}, headers=ada).json()
    deleted = httpx.delete(f"{url}/{name['id']}", headers=ada).json()
    left = of(gateway, "ada")
    foreign = [httpx.delete(f"{url}/{tea['id']}?user=bob"), httpx.patch(f"{url}/s1?user=bob", json={"text": "x"})]
    empty = httpx.patch(f"{url}/{tea['id']}", json={"text": " "}, headers=ada)
    nobody = httpx.get(url)
    everything = httpx.delete(url, headers=ada).json()

    assert corrected["item"]["text"] == "I like black tea."
    assert deleted == {"user": "ada", "deleted": name["id"]}
    assert [one["text"] for one in left] == ["I like black tea."]
    assert [(one.status_code, one.json()["error"]["code"]) for one in foreign] == [(404, "no_such_item")] * 2
    assert (empty.status_code, nobody.status_code) == (400, 400)
    assert everything == {"user": "ada", "deleted": {"sayings": 1}}
    assert of(gateway, "ada") == []


def test_a_gateway_whose_memory_shows_nothing_says_so(serve: Serve) -> None:
    without, hub = serve(), serve(memories=["strategyhub"])

    answers = [httpx.get(f"{each.url}/memory?user=ada") for each in (without, hub)]

    assert [answer.status_code for answer in answers] == [409, 409]
    assert "there is no memory" in answers[0].text
    assert "the memory StrategyHubMemory can't show what it keeps of a user" in answers[1].text


@pytest.mark.slow
def test_the_page_shows_what_is_kept_and_lets_it_be_changed(serve: Serve, chromium: Callable[..., Any]) -> None:
    gateway = serve(memories=[EARS])
    told(gateway, "I like <b>green</b> tea.", "ada")
    told(gateway, "My name is Ada.", "ada")
    browser = chromium()
    browser.open(f"{gateway.url}/")
    browser.evaluate("keep('user', 'ada'); element('user').value = 'ada'")

    def click(row: int, name: str) -> None:
        buttons = f"[...element('items').children[{row}].querySelectorAll('button')]"
        browser.evaluate(f"{buttons}.find((one) => one.textContent === '{name}').click()")

    browser.evaluate("element('memory').click()")
    browser.wait("element('items').children.length === 2")
    shown = browser.evaluate("element('items').innerText")
    click(0, "Delete")
    browser.wait("element('items').children.length === 1")
    click(0, "Correct")
    browser.evaluate("document.querySelector('#items textarea').value = 'I like black tea.'")
    click(0, "Save")
    browser.wait("element('items').innerText.includes('black')")

    assert "I like <b>green</b> tea." in shown
    assert [one["text"] for one in of(gateway, "ada")] == ["I like black tea."]
