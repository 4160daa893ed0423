"""Judging in `agentfw view`: stars, tags, notes, ratings, corrections, kept filters and tasks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentfw_plugins.worlds.from_feedback import read_examples

from ..gateway.conftest import CLIENT
from .test_sessions import asked_once, live_run
from .test_view import read, shown

View = Callable[..., str]


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    """Four sessions of ana and bo, one question each."""

    async def lead() -> None:
        async with live_run(tmp_path) as live:
            for name, user in (("tea", "ana"), ("cake", "ana"), ("rain", "bo"), ("snow", "bo")):
                await asked_once(live, name, user, f"What about {name}?")
                await live.conclude(live.sessions[name])

    asyncio.run(lead())
    return tmp_path


def post(url: str, path: str, **form: str) -> httpx.Response:
    return CLIENT.post(f"{url}/{path}", data=form)


def named(url: str, filter: str = "") -> list[str]:
    return [link.rpartition("/")[2] for link in shown(read(f"{url}/?{filter}"))]


def test_what_is_said_of_an_episode_is_shown_found_and_never_in_its_record(sessions: Path, view: View) -> None:
    [run] = sessions.glob("*sessions*")
    before = {file.name: file.read_bytes() for file in run.glob("*.jsonl")}
    url, episode = view(sessions), f"{run.name}/00000-0"

    assert (
        post(url, "annotate", episode=episode, star="1", back=f"episode/{episode}")
        .headers["location"]
        .endswith(episode)
    )
    post(url, "annotate", episode=episode, tag="odd")
    post(url, "annotate", episode=episode, tag="later")
    post(url, "annotate", episode=episode, untag="later")
    post(url, "annotate", episode=episode, note="<b>look</b> at the tea", turn="0")
    page = CLIENT.get(f"{url}/episode/{episode}").text

    assert "★" in page
    assert "&lt;b&gt;look&lt;/b&gt; at the tea" in page
    assert named(url, "mark=star") == named(url, "mark=tag+odd") == named(url, "mark=note") == ["00000-0"]
    assert named(url, "mark=tag+later") == []
    assert {name: (run / name).read_bytes() for name in before} == before


@pytest.mark.parametrize(
    "form", [{"rating": "6"}, {"tag": "x" * 61}, {"note": "x" * 100_001}, {"episode": "no/such", "star": "1"}]
)
def test_what_cant_be_said_is_told_and_nothing_is_written(sessions: Path, view: View, form: dict[str, str]) -> None:
    [run] = sessions.glob("*sessions*")

    answer = post(view(sessions), "annotate", **{"episode": f"{run.name}/00000-0", **form})

    assert answer.status_code in (400, 404)
    assert not (run / "annotations.jsonl").exists()


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}])
def test_a_page_of_somebody_else_cant_say_anything(sessions: Path, view: View, headers: dict[str, str]) -> None:
    [run] = sessions.glob("*sessions*")
    form = {"episode": f"{run.name}/00000-0", "star": "1", "back": "//evil.example"}

    assert CLIENT.post(f"{view(sessions)}/annotate", data=form, headers=headers).status_code == 403
    assert not (run / "annotations.jsonl").exists()


def test_a_page_starts_nothing_unless_that_was_allowed(sessions: Path, view: View) -> None:
    [run] = sessions.glob("*sessions*")

    answer = post(view(sessions), "start", train=run.name, model="tiny")

    assert answer.status_code == 400
    assert "agentfw view --allow-start" in answer.text
    assert [folder.name for folder in sessions.iterdir() if folder.is_dir()] == [run.name]


@pytest.mark.slow
def test_answers_are_rated_and_corrected_by_keys_and_learned_from(
    sessions: Path, view: View, chromium: Callable[..., Any]
) -> None:
    [run] = sessions.glob("*sessions*")
    url, browser = view(sessions), chromium()
    browser.open(f"{url}/rate?sort=began&order=up")
    asked = "document.querySelector('#answer .message.user pre').textContent"
    first = browser.evaluate(asked)

    browser.press_to("5")
    second = browser.evaluate(asked)
    browser.press_to("j")
    third = browser.evaluate(asked)
    browser.press_to("k")
    again = browser.evaluate(asked)
    browser.press("c")
    browser.type("Cake on Sunday.")
    browser.follow(".judge.text button")
    browser.press_to("j")
    browser.press_to("1")
    browser.press_to("4")
    left = browser.evaluate("document.querySelector('main').innerText")

    assert [first, second, third, again] == [f"What about {name}?" for name in ("tea", "cake", "rain", "cake")]
    assert "Every answer is rated" in left
    assert f"4 rated: train agentfw train --from {run.name}" in left.replace("\n", " ")
    assert [problem for problem in browser.problems if not problem.startswith(url)] == []
    found = {(one.messages[-1].content.split()[-1], one.text, one.value) for one in read_examples([run], 0.5)}
    assert found == {
        ("tea?", "You said: What about tea?", 1.0),
        ("cake?", "Cake on Sunday.", 1.0),
        ("cake?", "You said: What about cake?", -1.0),
        ("rain?", "You said: What about rain?", -1.0),
        ("snow?", "You said: What about snow?", 0.5),
    }


def test_a_filter_is_kept_and_a_question_is_added_to_the_tasks(sessions: Path, view: View) -> None:
    [run] = sessions.glob("*sessions*")
    url, episode = view(sessions), f"{run.name}/00001-0"

    post(url, "save", name="of ana", filter="user=ana", back="?user=ana")
    post(url, "annotate", episode=episode, turn="0", correction="Cake on Sunday.")
    for _ in range(2):
        post(url, "save", task=episode, turn="0")
    kept = CLIENT.get(f"{url}/").text
    tasks = [json.loads(line) for line in (sessions / "tasks.jsonl").read_text().splitlines()]

    assert 'href="./?user=ana">of ana</a>' in kept
    assert [(one["messages"], one["answer"], one["user"]) for one in tasks] == [
        ([{"role": "user", "content": "What about cake?"}], "Cake on Sunday.", "ana")
    ]
