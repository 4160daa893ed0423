"""What people ask of a recording, each answered in at most three clicks, and every page readable by everybody.

The recording has two runs of an inbox, a training, and sessions of a program that went through a gateway.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import completion, refusal, tool_call
from serving_gateways import CLIENT

from ..gateway.upstream import passing
from .conftest import careful, careless, play, viewed

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
SITE = Path(__file__).parents[2] / "site"
USAGE = {"prompt_tokens": 1234, "completion_tokens": 56}
FAILURE = "Error: there is no city of the name Pari"


def answer(body: dict[str, Any]) -> Any:
    said = body["messages"][-1]
    if "away" in str(said["content"]):
        return refusal(503, "no capacity left")
    if said["role"] == "user" and "weather" in said["content"]:
        called = {"tool_calls": [tool_call("get_weather", city=said["content"].split()[-1])]}
        return completion(None, message=called, finish_reason="tool_calls", top={"usage": USAGE})
    return completion(f"As for that: {said['content']}", top={"usage": USAGE})


def talk(url: str, session: str, user: str, question: str, result: str = "3 mm") -> None:
    said: list[dict[str, Any]] = [{"role": "user", "content": question}]
    while True:
        body = {"model": "served", "messages": said, "user": user, "tools": [WEATHER]}
        told = CLIENT.post(f"{url}/s/{session}/v1/chat/completions", json=body)
        if told.status_code != 200 or not (calls := told.json()["choices"][0]["message"].get("tool_calls")):
            return
        said += [told.json()["choices"][0]["message"]]
        said += [{"role": "tool", "tool_call_id": calls[0]["id"], "content": result}]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The pages of the recording."""
    runs = tmp_path_factory.mktemp("questions") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SITE))
        importlib.import_module("agentfw_laboratory.training").train(runs, updates=6)
    prices = ("policy.price.prompt=2", "policy.price.sampled=8")
    with passing(runs, answer, assignments=prices) as gateway:
        talk(gateway.url, "paris", "ana", "What is the weather in Pari", FAILURE)
        talk(gateway.url, "lyon", "ana", "What is the weather in Lyon")
        talk(gateway.url, "nice", "bo", "What is the weather in Nic", FAILURE)
        talk(gateway.url, "gone", "bo", "Are you away?")
    for rule in (careful, careless):
        play(runs, rule)
    with viewed(runs) as found:
        yield found


class Clicks:
    """Counts what somebody does in the browser."""

    def __init__(self, browser: Any, url: str) -> None:
        self.browser, self.count = browser, 0
        browser.size(1280, 900)
        browser.open(f"{url}/")
        browser.wait("document.querySelectorAll('.episodes tbody tr').length > 4")

    def click(self, selector: str, text: str = "") -> None:
        """Click the first of these links that has this text."""
        self.count += 1
        mark = f"""(() => {{
            const found = [...document.querySelectorAll({json.dumps(selector)})]
                .find((one) => one.checkVisibility() && one.textContent.includes({json.dumps(text)}));
            document.querySelector("[data-clicked]")?.removeAttribute("data-clicked");
            found?.setAttribute("data-clicked", "");
            return Boolean(found);
        }})()"""
        assert self.browser.evaluate(mark), (selector, text, self.text)
        self.browser.follow("[data-clicked]")

    def open(self, selector: str) -> None:
        self.count += 1
        self.browser.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def choose(self, name: str, value: str) -> None:
        """Choose from a list of the filter, which shows it at once."""
        self.count += 1
        self.browser.choose(f"#filter [name={name}]", value)

    @property
    def text(self) -> str:
        found: str = self.browser.evaluate("document.querySelector('main').innerText")
        return found

    def of(self, selector: str) -> str:
        found: str = self.browser.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        return found

    @property
    def listed(self) -> list[str]:
        found: list[str] = self.browser.evaluate(
            "[...document.querySelectorAll('.episodes td:first-child > a')].map((one) => one.textContent)"
        )
        return found


def why_did_this_fail(see: Clicks) -> None:
    assert see.listed[0] == "gone", "what failed is first"
    assert "1 with a request that failed" in see.text
    see.click(".episodes a", "gone")
    assert "HTTP 503" in see.of(".turn.cut")
    assert "no capacity left" in see.of(".turn.cut")
    assert time.strftime("%Y-%m-%d ") in see.text


def what_went_wrong(see: Clicks) -> None:
    see.click("#runs a.bad")
    see.click(".episodes td a")
    assert see.of(".call.failed .doubtful") == "message=99"
    assert "there is no mail 99" in see.of(".call.failed .problem")
    see.click(".button")
    assert len(see.browser.evaluate("[...document.querySelectorAll('.sides.heads > div')]")) == 2


def which_prompt_did_it_see(see: Clicks) -> None:
    see.click(".episodes a", "lyon")
    see.open("#turn-2 .prompt > summary")
    see.browser.wait("document.querySelectorAll('#turn-2 .prompt .message').length === 3")
    assert "What is the weather in Lyon" in see.of("#turn-2 .prompt")
    assert "3 mm" in see.of("#turn-2 .prompt")


def what_did_it_cost(see: Clicks) -> None:
    see.click(".episodes a", "lyon")
    cost = 2 * (1234 * 2 + 56 * 8) / 1e6
    assert f"{cost:.4f}" in see.of(".facts")
    assert "1,234 tokens in, 56 out" in see.text
    assert re.search(r"[\d.]+ s in all", see.text)


def which_memory_and_why(see: Clicks) -> None:
    see.click("#runs td:first-child a", "inbox")
    see.click(".actions a", "Episodes")
    see.click(".episodes td:first-child > a")
    assert "Mails of Ada come first" in see.of(".recalled")
    assert "she is in a hurry" in see.of(".recalled")


def which_call_was_the_slowest(see: Clicks) -> None:
    see.click(".episodes a", "lyon")
    assert see.text.count("slowest") == 1
    assert see.browser.evaluate("document.querySelectorAll('#waterfall tbody tr').length") == 3


def what_did_version_3_say(see: Clicks) -> None:
    see.open("#others > summary")
    versions = see.browser.evaluate("[...document.querySelectorAll('[name=version] option')].map((one) => one.value)")
    see.choose("version", sorted(filter(None, versions))[3])
    see.click(".episodes td:first-child > a")
    assert sorted(filter(None, versions))[3] in see.of(".facts")
    assert see.of(".message.assistant").strip()


def where_did_the_reward_fall(see: Clicks) -> None:
    see.click("#runs td:first-child a", "bandit")
    assert see.text.count("fell most") == 1
    see.click("#stages tr:has(.chip) a", "worst to best")
    rewards = see.browser.evaluate(
        "[...document.querySelectorAll('td[data-label=reward]')].map((one) => +one.textContent)"
    )
    assert len(rewards) > 1
    assert rewards == sorted(rewards)


def all_sessions_of_ana_with_a_failed_tool(see: Clicks) -> None:
    see.choose("failure", "refused")
    see.click(".episodes td[data-label=user] a", "ana")
    assert see.listed == ["paris"]


def what_changed_between_two_runs(see: Clicks) -> None:
    see.click("nav a", "Compare")
    assert "±" in see.of(".means")
    see.click(".highlights a")
    assert "the first that differs" in see.text


def which_answers_should_i_rate_next(see: Clicks) -> None:
    see.click("nav a", "Rate")
    see.browser.press_to("4")
    see.count += 1
    assert "1 rated" in see.text


QUESTIONS: list[Callable[[Clicks], None]] = [
    why_did_this_fail,
    what_went_wrong,
    which_prompt_did_it_see,
    what_did_it_cost,
    which_memory_and_why,
    which_call_was_the_slowest,
    what_did_version_3_say,
    where_did_the_reward_fall,
    all_sessions_of_ana_with_a_failed_tool,
    what_changed_between_two_runs,
    which_answers_should_i_rate_next,
]


def test_questions_are_answered_in_three_clicks_each(url: str, chromium: Callable[..., Any]) -> None:
    browser = chromium()
    for question in QUESTIONS:
        see = Clicks(browser, url)

        question(see)

        assert 0 < see.count <= 3, question
    assert [one for one in browser.problems if not one.startswith(url)] == []


ALL = 99
"""Pages. Each takes seconds."""


@pytest.mark.parametrize(
    ("width", "scheme", "pages"),
    [
        pytest.param(1280, "light", 3),
        pytest.param(1280, "light", ALL, marks=pytest.mark.nightly),
        pytest.param(400, "dark", ALL, marks=pytest.mark.nightly),
    ],
)
def test_every_page_can_be_read_by_everybody(
    url: str, chromium: Callable[..., Any], width: int, scheme: str, pages: int
) -> None:
    package = importlib.util.find_spec("axe_playwright_python")
    if package is None or package.origin is None:
        pytest.skip("needs axe-playwright-python, for the axe-core that it brings")
    axe = (Path(package.origin).parent / "axe.min.js").read_text("utf-8")
    browser, found = chromium(), dict[str, Any]()
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.open(f"{url}/")
    paths = ["/", "/runs", *reversed(pages_of(browser)), "/?failure=any", "/?text=nothing", "/rate", "/nothing"]
    browser.size(width, 900)
    for path in paths[:pages]:
        browser.open(path if "://" in path else f"{url}{path}")
        browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        browser.evaluate(f"{axe};0")
        browser.evaluate(LOOK_ALIKE)
        run = "axe.run().then((all) => all.violations.map((one) => [one.id, one.nodes.map((node) => node.html)]))"
        answer = browser.call("Runtime.evaluate", expression=run, awaitPromise=True, returnByValue=True)
        assert "value" in answer["result"], answer
        if answer["result"]["value"]:
            found[path] = answer["result"]["value"]

    assert found == {}


LOOK_ALIKE = """(() => {
    const looks = new Set();
    for (const one of document.querySelectorAll("tr, article, li, dl > div, option")) {
        const parts = [one, ...one.querySelectorAll("*")];
        const look = parts.map((part) => part.tagName + (part.getAttribute("class") ?? "")).join();
        if (looks.has(look)) one.remove(); else looks.add(look);
    }
})()"""
"""Takes out what has the same tags and classes as something before it: axe takes half a minute for all of it."""


def pages_of(browser: Any) -> list[str]:
    """One page of each kind that the list leads to: a session, a run of each kind, an episode, and two side by side."""
    some: list[str] = browser.evaluate("""[
        ...document.querySelectorAll("#runs td:first-child a"),
        ...[...document.querySelectorAll(".episodes td:first-child > a")].slice(0, 3),
    ].map((one) => one.href)""")
    browser.follow("nav a[href$='/runs']")
    pairs: list[str] = browser.evaluate(
        "[...document.querySelectorAll('.highlights a')].slice(0, 1).map((one) => one.href)"
    )
    return [*some, *pairs]
