"""What a gateway's record says of requests that failed, and of what the others took: on the pages of `agentfw view`."""

from __future__ import annotations

import re
import time
from html import unescape
from pathlib import Path

import httpx
from chat_server import chunks, completion, refusal
from waiting import until

from .upstream import passing

FAILING = refusal(503, "the provider has no capacity left")


def ask(url: str, session: str, text: str = "hello", **more: object) -> httpx.Response:
    body = {"model": "served", "messages": [{"role": "user", "content": text}], **more}
    return httpx.post(f"{url}/s/{session}/v1/chat/completions", json=body, timeout=60)


def page(url: str, path: str = "") -> str:
    text = httpx.get(f"{url}/view/{path}", timeout=60).text
    return unescape(re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.S))


def episodes(page: str) -> list[str]:
    """What the list calls its episodes, in its order."""
    return re.findall(r'<td data-label="episode"><a href="[^"]+">([^<]+)<', page)


def listed(url: str, number: int, filter: str = "") -> str:
    """The list, once it has so many episodes: what was answered is read a moment later."""

    def found() -> str:
        now = page(url, filter)
        return now if len(episodes(now)) == number and "still reading" not in now else ""

    return str(until(found))


def test_a_request_that_the_provider_refused_is_seen_first_with_its_status_text_and_time(tmp_path: Path) -> None:
    with passing(tmp_path, FAILING, completion("fine")) as gateway:
        refused = ask(gateway.url, "broken", "what is the weather")
        assert ask(gateway.url, "well").status_code == 200
        failed, first = listed(gateway.url, 1, "?failure=failed"), listed(gateway.url, 2)
        [link] = re.findall(r'<td data-label="episode"><a href="([^"]+)"', failed)
        shown = page(gateway.url, link)

    assert refused.status_code == 503
    assert episodes(first) == ["broken", "well"]
    assert "1 with a request that failed" in first
    assert episodes(failed) == ["broken"]
    assert "1 request failed" in failed
    assert "in progress" not in failed
    for words in ("failed, HTTP 503", "the provider has no capacity left", "what is the weather"):
        assert words in shown
    assert time.strftime("%Y-%m-%d ") in shown


def test_what_an_answer_took_is_shown_with_its_date(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 1234, "completion_tokens": 56, "prompt_tokens_details": {"cached_tokens": 400}}
    pieces = [
        {"choices": [{"index": 0, "delta": {"content": "Rain."}, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage},
    ]
    prices = ("policy.price.prompt=2", "policy.price.sampled=8")
    with passing(tmp_path, chunks(*pieces), counts=True, assignments=prices) as gateway:
        assert ask(gateway.url, "priced", stream=True, stream_options={"include_usage": True}).status_code == 200
        first = listed(gateway.url, 1, "?text=Rain")
        [link] = re.findall(r'<td data-label="episode"><a href="([^"]+)"', first)
        shown = page(gateway.url, link)

    for heading, value in (("tokens in", "1,234"), ("tokens out", "56"), ("cost", "0.002916")):
        assert re.search(rf'data-label="{heading}">\s*{value}<', first), heading
    assert re.search(r'data-label="time \(s\)">\d+\.\d+<', first)
    assert f'data-label="began" title="{time.strftime("%Y-%m-%d ")}' in first
    assert "1,234 tokens in (400 cached), 56 out" in shown
    assert re.search(r"[\d.]+ s to the first token · [\d.]+ s in all", shown)
