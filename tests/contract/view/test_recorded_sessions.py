"""`agentfw view` shows what was recorded of a session: as text, the right words for each, and the same in a bundle."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving_gateways import CLIENT

from agentfw import Generation, Message, Policy, Request
from agentfw.episode import Call
from agentfw.request import Action
from agentfw.runs import LiveRun, parse_spec
from agentfw.testing import fresh_host

HOSTILE = "</p></script><script>window.taken=1</script><img src=x onerror='taken=1'> & \"quoted\" "
SAY = Action("say", "Say it", {"type": "object", "properties": {"text": {"type": "string"}}})
WHERE = ("said", "system", "answer", "call", "result", "words", "correction", "user", "cut", "query")


def hostile(where: str) -> str:
    """A text with markup that says where it stands."""
    return f"{HOSTILE}{where}-place"


class Saying(Policy):
    """Answers with what it was told to at the beginning, under that version."""

    def __init__(self, version: str) -> None:
        self.version = version

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        said = request.messages[-1].content
        if said == "break off":
            tell(hostile("cut"))
            raise ConnectionResetError("gone")
        text = f"{self.version} heard {said}. {hostile('answer')}"
        tell(text)
        calls = tuple(Call(action.name, {"text": hostile("call")}, "c1") for action in request.actions)
        return Generation(text, calls, version=self.version)

    async def generate(self, request: Request) -> Generation:
        return await self.stream(request, lambda piece: None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hostile session, and one each that the versions v-one and v-two have answered."""
    folder = tmp_path_factory.mktemp("view") / "runs"
    spec = {
        "environment": "sessions",
        "policy": {"name": "scripted", "settings": {"replies": [""]}},
        "rewards": ["feedback"],
    }

    async def record() -> None:
        async with LiveRun.create(parse_spec(spec), fresh_host(builtins=True), folder) as live:
            session = live.begin(hostile("query"), user=hostile("user"))
            talk = [Message("system", hostile("system")), Message("user", hostile("said"))]
            reply = await session.answer(talk, [SAY], policy=Saying("v-hostile"))
            talk += [reply.message, Message("tool", hostile("result"), answers="c1")]
            await session.answer(talk, [SAY], policy=Saying("v-hostile"))
            asked = [*talk, Message("user", "break off")]
            with pytest.raises(ConnectionResetError):
                await session.answer(asked, tell=lambda piece: None, policy=Saying("v-hostile"))
            session.feedback(-1.0, words=hostile("words"), correction=hostile("correction"), turn=0)
            await live.keep(session)
            await live.conclude(session)
            for version, word in (("v-one", "apricot"), ("v-two", "bergamot")):
                session = live.begin(word, user="ada")
                await session.answer([Message("user", f"Say {word}")], policy=Saying(version))
                await live.keep(session)
                await live.conclude(session)

    asyncio.run(record())
    return folder


@pytest.fixture(scope="module")
def url(runs: Path, view_of: Callable[[Path], str]) -> str:
    return view_of(runs)


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.text, self._skips = list[tuple[str, dict[str, str | None]]](), "", False
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        self._skips = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._skips = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._skips else data


def read(url: str) -> str:
    answer = CLIENT.get(url, follow_redirects=True)
    assert answer.status_code == 200, answer.text
    return answer.text


def shown(page: str) -> list[str]:
    """Links to the episodes of a table."""
    return [unescape(link) for link in re.findall(r'<td data-label="episode"><a href="([^"]+)"', page)]


def page_of(url: str, words: str) -> str:
    """The page of the only episode that a search finds."""
    [link] = shown(read(f"{url}/?text={words}"))
    return read(str(httpx.URL(url).join(link)))


def is_harmless(page: str) -> None:
    """Nothing of a record has become markup."""
    found = Tags(page)
    assert "taken=1" not in "".join(re.findall(r"<script[^>]*>(.*?)</script>", page, re.S))
    assert [tag for tag, attributes in found.tags if "onerror" in attributes or attributes.get("src") == "x"] == []


def test_everything_that_was_recorded_is_shown_as_text(url: str) -> None:
    page = page_of(url, "said-place")

    is_harmless(page)
    is_harmless(read(url))
    text = " ".join(Tags(page).text.split())
    # The arguments of a call are shown as JSON, in which quotation marks are escaped.
    words = {where: hostile(where).replace('"', '\\"') if where == "call" else hostile(where) for where in WHERE}
    assert [where for where, one in words.items() if " ".join(one.split()) not in text] == []


@pytest.mark.parametrize(
    ("words", "count"), [("apric", 1), ("heard", 3), ('"v-one heard"', 1), ('"heard v-one"', 0), ("words-place", 1)]
)
def test_search_finds_what_was_said_and_answered_and_nothing_else(url: str, words: str, count: int) -> None:
    assert len(shown(read(f"{url}/?text={words}"))) == count


def test_a_bundle_has_the_same_pages(runs: Path, url: str, agentfw: Callable[..., Any], tmp_path: Path) -> None:
    [run] = [path.name for path in runs.iterdir() if path.is_dir()]
    agentfw("view", run, "--runs", str(runs), "--bundle", str(tmp_path / "site"))

    pages = [page.read_text("utf-8") for page in (tmp_path / "site").glob("*.html")]
    for page in pages:
        is_harmless(page)
        assert "<style" not in page, "the style is in one file"
        for link in re.findall(r'(?:href|src)="([^"#]+)', page):
            file = tmp_path / "site" / unescape(link).replace("%7E", "~")
            assert link == "data:," or file.exists(), "it opens from disk"
    for words in ("said-place", "apricot", "bergamot"):
        [bundled] = [page for page in pages if words in Tags(page).text and "turn-1" in page]
        assert turns_of(bundled) == turns_of(page_of(url, words))
    records = [json.loads(file.read_text("utf-8")) for file in (tmp_path / "site").glob("*.jsonl")]
    assert len(records) == 3


def test_a_program_reads_an_outline_and_any_part_within_its_budget(runs: Path, agentfw: Callable[..., Any]) -> None:
    def part(address: str, tokens: int = 2000) -> dict[str, Any]:
        found: dict[str, Any] = agentfw("view", "--text", address, "--runs", str(runs), "--tokens", str(tokens))
        assert len(json.dumps(found)) < 1500 + 5 * tokens
        return found

    run = part("last")
    episode = part(run["listed"][0]["address"])
    turn = part(episode["turns"][0]["address"])
    few = part(episode["turns"][0]["address"], 50)
    tea = part("last?text=Say:apricot")

    assert (run["episodes"], run["failed"], len(run["listed"]), run["left_out"]) == (3, 1, 3, 0)
    assert [one.get("cut_off", 0) for one in run["listed"]] == [1, 0, 0]
    assert turn["said"] == f"v-hostile heard {hostile('said')}. {hostile('answer')}"
    assert [one["content"] for one in turn["read"]] == [hostile("system"), hostile("said")]
    assert turn["calls"][0]["answer"] == hostile("result")
    assert "more characters" in few["said"]
    assert (tea["failed"], [one["begins"] for one in tea["listed"]]) == (0, ["Say apricot"])


def turns_of(page: str) -> str:
    """The text of the conversation on an episode's page, without the forms, which a bundle has none of."""
    conversation = re.sub(
        r"<details><summary>Rate, note.*?</details>", "", page[page.index('id="turn-1"') :], flags=re.S
    )
    text = Tags(conversation).text
    return " ".join(text.split())
