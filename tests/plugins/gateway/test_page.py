"""The page of `agentfw serve` in a real Chromium, and what it reads."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from chat_server import chunks, completion
from waiting import until

from agentfw import Generation, Intervention, Moment, Policy, Request
from agentfw.runs import RunFolder, read_sessions
from agentfw_plugins.gateway.handling import Caller
from agentfw_plugins.gateway.live import Limits, opened
from agentfw_plugins.gateway.reading import Reading

from .conftest import CLIENT, EARS, Serve, Served
from .test_memory import told
from .test_sessions import ask, body
from .upstream import passing

MARKUP = '<script>window.taken=1</script><img src=x onerror="window.taken=1">'

Browsers = Callable[..., Any]
"""The fixture `chromium`: starts a browser."""


def calls_a_tool(moment: Moment) -> Iterator[Intervention | str]:
    """Adds where it is asked to, says what a tool answered, and else repeats what was said."""
    for answer in moment.of("answer"):
        yield f"It is {answer.text}."
        return
    for said in moment.of("message")[-1:]:
        if said.text.startswith("add"):
            yield Intervention("add", {"a": 2, "b": 3})
        else:
            yield f"You said: {said.text}"
        return
    yield "Nothing new."


def say(browser: Any, text: str, answer: str) -> None:
    """Type a message, and wait until its answer is on the screen and in the record."""
    browser.evaluate("element('say').focus()")
    browser.type(text)
    browser.press("Enter")
    shown = (
        f"[...document.querySelectorAll('.assistant .words')].some((one) => one.textContent === {json.dumps(answer)})"
    )
    browser.wait(f"!working && shown && {shown}")


def click(browser: Any, turn: int, name: str) -> None:
    buttons = f"[...document.querySelectorAll('[data-turn=\"{turn}\"] button')]"
    browser.evaluate(f"{buttons}.find((one) => one.textContent === '{name}').click()")


def foreign(browser: Any, gateway: Served) -> list[str]:
    """What the page complained of, or asked for elsewhere."""
    return [one for one in browser.problems if not one.startswith(f"{gateway.url}/")]


# -- in a browser ------------------------------------------------------------------------------------------------------


def test_a_person_talks_reads_and_rates_and_it_is_on_disk(serve: Serve, chromium: Browsers, tmp_path: Path) -> None:
    (tmp_path / "add.py").write_text('def add(a: int, b: int) -> str:\n    "Add."\n    return str(a + b)\n')
    rule = f"policy.rule={__name__}:calls_a_tool"
    gateway = serve(policy="scripted", tools=[str(tmp_path / "add.py")], assignments=[rule])
    browser = chromium()
    browser.open(f"{gateway.url}/")
    browser.wait("element('list').textContent.includes('no session')")

    say(browser, MARKUP, f"You said: {MARKUP}")
    say(browser, "add them", "It is 5.")
    talked = browser.evaluate("document.body.innerText")
    click(browser, 0, "Good")
    browser.wait("document.querySelector('.given.good')")
    click(browser, 2, "Bad")
    browser.type("too short")
    browser.press("Enter")
    browser.wait("document.querySelector('.given.bad')")
    click(browser, 2, "Correct")
    browser.evaluate("document.querySelector('.inline textarea').value = 'Five.'")
    browser.evaluate("document.querySelector('.inline').requestSubmit()")
    browser.wait("document.querySelectorAll('.given').length === 3")
    say(browser, "go on", "You said: go on")
    name = browser.evaluate("shown.session")
    [on_disk] = read_sessions(gateway.live.folder.path)

    browser.evaluate("element('new').click()")
    browser.wait("!shown")
    browser.evaluate(f"document.querySelector('[data-session=\"{name}\"]').click()")
    browser.wait("shown")
    read = browser.evaluate("element('transcript').innerText")
    browser.follow("#episodes")
    browser.wait("document.querySelectorAll('.episodes tbody tr').length === 1")
    browser.follow(".episodes td a")
    viewed = browser.evaluate("document.querySelector('#turn-1').innerText")
    browser.follow(".button")
    browser.wait("shown")
    led_back = browser.evaluate("shown.session")
    browser.evaluate("document.querySelector('#head button').click()")
    browser.evaluate("document.querySelector('#head form').requestSubmit()")
    browser.wait("shown.finish")

    assert browser.evaluate("window.taken") is None
    assert browser.evaluate("document.querySelectorAll('main img').length") == 0
    assert browser.evaluate("document.querySelectorAll('.user, .tool').length") == 4
    for words in (MARKUP, "calls add", '{"a":2,"b":3}', "It is 5."):
        assert words in talked
        assert words in read
    assert "assistant, as corrected" in read, "the conversation goes on with the correction"
    assert f"You said: {MARKUP}" in viewed
    assert "rated good" in viewed
    assert led_back == name
    given = [event.data for event in on_disk.events if event.name == "feedback"]
    assert [(one["value"], one["turn"], one["text"], one["correction"]) for one in given] == [
        (1.0, 0, "", ""),
        (-1.0, 2, "too short", ""),
        (-1.0, 2, "Five.", "Five."),
    ]
    [episode] = RunFolder.open(gateway.live.folder.path).episodes()
    assert (episode.task.query, episode.finish, len(episode.turns)) == (name, "ended", 4)
    assert foreign(browser, gateway) == []


ANSWER = """two.

# Two teas

- **Assam**, strong
- *Darjeeling*, light

| tea | minutes |
| --- | ---: |
| Assam | 4\\|5 |

```python
print("<b>4 minutes</b>")
```
`kettle` at 2 * 3 * 4 o'clock"""


def test_words_are_shown_as_they_come_and_markdown_as_such_which_never_becomes_markup(
    serve: Serve, chromium: Browsers
) -> None:
    class InTwoPieces(Policy):
        async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
            tell("One, ")
            self.loop, self.goes_on = asyncio.get_running_loop(), asyncio.Event()
            await self.goes_on.wait()
            tell(ANSWER)
            return Generation(f"One, {ANSWER}")

    gateway, policy = serve(), InTwoPieces()
    gateway.live.assembly.policy.inside = policy
    browser = chromium()
    browser.open(f"{gateway.url}/")
    browser.wait("model")
    said = "[...document.querySelectorAll('.assistant .words')].map((one) => one.textContent).join()"

    browser.evaluate("element('say').focus()")
    browser.type("count")
    browser.press("Enter")
    browser.wait(f"{said} === 'One, '")
    browser.evaluate("attempt(begin).then(() => { window.begun = true; })")  # as if the page were still loading
    browser.wait("window.begun")
    offered, kept = browser.evaluate("element('send').textContent"), browser.evaluate(said)
    policy.loop.call_soon_threadsafe(policy.goes_on.set)
    browser.wait("!working && document.querySelector('.assistant .words ul')")

    def texts(selector: str) -> Any:
        found = f"document.querySelectorAll('.assistant .words {selector}')"
        return browser.evaluate(f"[...{found}].map((one) => one.textContent)")

    assert texts(".heading") == ["Two teas"]
    assert texts("li") == ["Assam, strong", "Darjeeling, light"]
    assert texts("strong") == ["Assam"]
    assert texts("em") == ["Darjeeling"]
    assert texts("pre code") == ['print("<b>4 minutes</b>")']
    assert texts("p code") == ["kettle"]
    assert texts("p:last-child") == ["kettle at 2 * 3 * 4 o'clock"]
    assert [texts(f"tr:nth-child({row}) > *") for row in (1, 2)] == [["tea", "minutes"], ["Assam", "4|5"]]
    assert texts("b") == []
    assert foreign(browser, gateway) == []
    assert offered == "Stop"
    assert kept == "One, "


def test_what_was_remembered_and_spent_is_shown_and_can_be_changed_also_on_a_narrow_screen(
    tmp_path: Path, chromium: Browsers
) -> None:
    settings = ("policy.price.prompt=100", "policy.price.sampled=100")
    with passing(tmp_path, completion("fine"), memories=[EARS], assignments=settings) as gateway:
        told(gateway, "I have a dog called Rex.", "ada")
        told(gateway, "I live in Rome.", "ada")
        ask(gateway.session("again"), body("Where do I live?", user="ada", model="served"))
        ask(gateway.session("bobs"), body("Hello.", user="bob", model="served"))
        until(lambda: len(gateway.remembered("ada")) == 3)
        browser = chromium()
        browser.size(350, 700)
        browser.open(f"{gateway.url}/#again")
        browser.wait("shown")
        recalled = browser.evaluate("document.querySelector('.remembered').innerText")
        width = browser.evaluate("document.documentElement.scrollWidth")

        browser.evaluate("element('usage').click()")
        browser.wait("element('spent').open && element('sums').querySelector('table')")
        by_model = browser.evaluate("element('sums').innerText")
        browser.evaluate("element('by').value = 'user'; element('by').onchange()")
        browser.wait("element('sums').innerText.includes('bob')")
        browser.evaluate("element('user').value = 'bob'; element('by').onchange()")
        browser.wait("!element('sums').innerText.includes('ada')")

        def click_at_an_item(name: str) -> None:
            buttons = "[...element('items').children[0].querySelectorAll('button')]"
            browser.evaluate(f"{buttons}.find((one) => one.textContent === '{name}').click()")

        browser.evaluate("keep('user', 'ada'); element('user').value = 'ada'; element('memory').click()")
        browser.wait("element('items').children.length === 3")
        click_at_an_item("Delete")
        browser.wait("element('items').children.length === 2")
        click_at_an_item("Correct")
        browser.evaluate("document.querySelector('#items textarea').value = 'I have a cat.'")
        click_at_an_item("Save")
        browser.wait("element('items').innerText.includes('cat')")

        assert "I live in Rome." in recalled
        assert width == 350
        assert "served" in by_model
        assert "0.0056" in by_model
        assert gateway.remembered("ada") == ["I have a dog called Rex.", "I have a cat."]
        assert foreign(browser, gateway) == []


def test_a_provider_gives_a_call_in_pieces(tmp_path: Path, chromium: Browsers) -> None:
    (tmp_path / "add.py").write_text('def add(a: int, b: int) -> str:\n    "Add."\n    return str(a + b)\n')
    first = {"index": 0, "id": "call-1", "type": "function", "function": {"name": "add", "arguments": ""}}
    rest = ({"index": 0, "function": {"arguments": text}} for text in ('{"a": 2,', ' "b": 3}'))
    pieces = [{"choices": [{"index": 0, "delta": {"tool_calls": [one]}}]} for one in (first, *rest)]
    called = chunks(*pieces, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    told = {"choices": [{"index": 0, "delta": {"content": "It is 5."}, "finish_reason": "stop"}]}
    lines = f"data:{json.dumps(told)}\r\n\r\ndata: [DONE]\r\n\r\n".encode()  # as others end them
    with passing(tmp_path, called, chunks(lines, done=False), counts=True, tools=[str(tmp_path / "add.py")]) as gateway:
        browser = chromium()
        browser.open(f"{gateway.url}/")
        browser.wait("model")
        say(browser, "add them", "It is 5.")

        assert browser.evaluate("document.querySelector('.tool pre').textContent") == "5"
        assert gateway.asked[-1]["messages"][-1]["content"] == "5"


def test_the_page_asks_for_the_key_and_forgets_it_with_the_tab(serve: Serve, chromium: Browsers) -> None:
    key = "sk-the-only-key"
    gateway = serve(Limits(keys=(key,)))
    browser = chromium()
    browser.open(f"{gateway.url}/")

    for given in ("sk-wrong", key):
        browser.wait("element('locked').open && !element('key').value")
        browser.evaluate(f"element('key').value = '{given}'; document.querySelector('#locked form').requestSubmit()")
    browser.wait("model")
    say(browser, "hello", "You said: hello")

    assert browser.evaluate("JSON.stringify(localStorage) + document.cookie") == "{}"
    assert CLIENT.get(f"{gateway.url}/sessions").status_code == 401


# -- what it reads -----------------------------------------------------------------------------------------------------


def test_the_page_allows_its_own_script_and_nothing_else(gateway: Served) -> None:
    answer = CLIENT.get(f"{gateway.url}/")

    policy = answer.headers["content-security-policy"]
    for element in ("script", "style"):
        [inner] = re.findall(rf"<{element}>(.*?)</{element}>", answer.text, re.DOTALL)
        assert f"{element}-src 'sha256-{b64encode(sha256(inner.encode()).digest()).decode()}';" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(
        r"""(src|href)=["'](?!data:|view/)|innerHTML|insertAdjacentHTML|document\.write""", answer.text
    )
    assert CLIENT.get(f"{gateway.url}/", headers={"host": "evil.example"}).status_code == 403


def test_sessions_of_an_earlier_process_are_listed_and_read_with_their_rewards(serve: Serve) -> None:
    from .conftest import rule, served

    runs = Path(serve().live.folder.path).parent.parent / "earlier"
    with served(runs, policy="scripted", assignments=[f"policy.rule={rule.__module__}:rule"]) as first:
        for name in ("ended", "other"):
            ask(first.session(name), body(f"hello from {name}"))
        CLIENT.post(f"{first.url}/s/ended/feedback", json={"value": 0.5, "turn": 0})
        CLIENT.post(f"{first.url}/s/ended/end")
        run = first.live.folder.path.name

    with served(runs, resume=run) as again:
        listed = CLIENT.get(f"{again.url}/sessions").json()
        older = CLIENT.get(f"{again.url}/sessions?before=1").json()
        read = CLIENT.get(f"{again.url}/s/ended").json()
        assert ask(again.session("other"), body("hello again"))["session"] == "other~2"

    assert [(one["session"], one["begins"], one["finish"]) for one in listed["sessions"]] == [
        ("other", "hello from other", "closed"),
        ("ended", "hello from ended", "ended"),
    ]
    assert [one["session"] for one in older["sessions"]] == ["ended"]
    assert (read["reward"], read["feedback"][0]["value"]) == (0.5, 0.5)
    assert [message["content"] for message in read["messages"]] == ["hello from ended"]
    assert read["turns"][0]["text"] == "You said: hello from ended"


def test_the_newest_hundred_sessions_are_listed_and_then_those_before(tmp_path: Path) -> None:
    async def listed() -> list[tuple[list[int], bool]]:
        async with opened(tmp_path, policy="scripted", assignments=['policy.replies=["yes"]']) as live:
            for number in range(101):
                live.begin(f"s{number}")
            found = [await Reading(live).sessions(Caller(""), one) for one in (None, 100, 1)]
        return [([row["number"] for row in one["sessions"]], one["more"]) for one in found]

    assert asyncio.run(listed()) == [([*range(100, 0, -1)], True), ([*range(99, -1, -1)], False), ([0], False)]


def test_an_answer_that_came_back_is_told_from_one_that_was_edited(gateway: Served) -> None:
    url = gateway.session("edited")
    first = ask(url, body("one"))["choices"][0]["message"]
    ask(url, body("one", first, "two"))
    ask(url, body("one", {"role": "assistant", "content": "Never said."}, "three"))

    messages = CLIENT.get(f"{gateway.url}/s/edited").json()["messages"]

    assert [(one["content"], one["answer"]) for one in messages if one["role"] == "assistant"] == [
        (first["content"], 0),
        ("Never said.", None),
    ]
    assert CLIENT.get(f"{gateway.url}/s/nobody").status_code == 404
    assert CLIENT.get(f"{gateway.url}/sessions?before=-1").status_code == 400
