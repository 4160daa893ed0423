"""Judging in `agentfw view`: stars, tags, notes, ratings, corrections, kept filters and tasks."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from chat_server import completion, serving
from command_line import Agentfw, Answer
from serving_gateways import CLIENT

from agentfw import Generation, Request
from agentfw_plugins.view.annotations import read_annotations
from agentfw_plugins.worlds.from_feedback import read_examples

from .conftest import viewed
from .test_sessions import Echo, asked_once, live_run
from .test_view import read, runs_of, shown

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
    for given in ({"tag": "odd"}, {"tag": "later"}, {"tag": "odd"}, {"untag": "later"}):
        post(url, "annotate", episode=episode, **given)
    post(url, "annotate", episode=episode, note="<b>look</b> at the tea", turn="0")
    page = CLIENT.get(f"{url}/episode/{episode}").text

    assert "★" in page
    assert "&lt;b&gt;look&lt;/b&gt; at the tea" in page
    assert named(url, "mark=star") == named(url, "mark=tag+odd") == named(url, "mark=note") == ["00000-0"]
    assert named(url, "mark=tag+later") == []
    assert named(url, "mark=unrated") == named(url)
    for kind, value in (("rating", "2"), ("correction", "Green.\r\nOr mint."), ("correction", "Green.\r\nOr mint.")):
        post(url, "annotate", episode=episode, turn="0", **{kind: value})  # browsers end lines so
    said = read_annotations(run)
    assert (said["", "00000-0", None].tags, said["", "00000-0", 0].correction) == (["odd"], "Green.\nOr mint.")
    assert len((run / "annotations.jsonl").read_text().splitlines()) == 8, "what says nothing new isn't written"
    assert (named(url, "mark=rated"), named(url, "mark=unrated&sort=began")[-1:]) == (["00000-0"], ["00001-0"])
    for form in ({"star": ""}, {"turn": "0", "rating": ""}, {"turn": "0", "correction": ""}):
        post(url, "annotate", episode=episode, **form)
    assert named(url, "mark=star") == named(url, "mark=rated") == []
    assert {name: (run / name).read_bytes() for name in before} == before


def test_what_cant_be_said_is_told_and_nothing_is_written(sessions: Path, view: View) -> None:
    [run] = sessions.glob("*sessions*")
    url, episode = view(sessions), f"{run.name}/00000-0"
    forms = [{"rating": "6"}, {"tag": "x" * 61}, {"note": "x" * 100_001}, {"episode": "no/such", "star": "1"}]

    for form in forms:
        assert post(url, "annotate", **{"episode": episode, **form}).status_code in (400, 404)
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):  # of somebody else's page
        data = {"episode": episode, "star": "1", "back": "//evil.example"}
        assert CLIENT.post(f"{url}/annotate", data=data, headers=headers).status_code == 403
    assert not (run / "annotations.jsonl").exists()


def test_a_page_starts_nothing_unless_that_was_allowed(sessions: Path, view: View) -> None:
    [run] = sessions.glob("*sessions*")

    answer = post(view(sessions), "start", train=run.name, model="tiny")

    assert answer.status_code == 400
    assert "agentfw view --allow-start" in answer.text
    assert [folder.name for folder in sessions.iterdir() if folder.is_dir()] == [run.name]


def test_an_answer_that_broke_off_or_was_rated_by_its_user_waits_for_no_rating(tmp_path: Path, view: View) -> None:
    class BreaksOff(Echo):
        async def generate(self, request: Request) -> Generation:
            return replace(await super().generate(request), finish="interrupted")

    async def lead() -> None:
        async with live_run(tmp_path) as live:
            for name, policy in (("tea", BreaksOff()), ("rain", Echo()), ("snow", Echo()), ("cake", Echo())):
                await asked_once(live, name, "ana", f"What about {name}?", policy)
            for name, turn in (("rain", 0), ("snow", None)):
                live.sessions[name].feedback(1.0, turn=turn)
                await live.keep(live.sessions[name])

    asyncio.run(lead())
    page = CLIENT.get(f"{view(tmp_path)}/rate?sort=began&order=up").text

    assert "What about cake?" in page
    assert [name for name in ("tea", "rain", "snow") if f"What about {name}?" in page] == []
    assert "<b>2 rated</b>" in page, "what its user thought of it counts, too"


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
    post(url, "annotate", episode=f"{run.name}/00001-0", turn="0", note="of another person")
    browser.press("c")
    browser.type("Cake on Sunday.")
    browser.follow(".judge.text button")
    browser.press_to("j")
    browser.press_to("1")
    browser.press_to("4")
    left = browser.evaluate("document.querySelector('main').innerText")

    assert [first, second, third, again] == [f"What about {name}?" for name in ("tea", "cake", "rain", "cake")]
    assert "Every answer is rated" in left
    assert read_annotations(run)["", "00001-0", 0].note == "of another person"
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


def test_a_note_that_is_being_written_stays_when_the_page_renews_itself(
    tmp_path: Path, view: View, chromium: Callable[..., Any]
) -> None:
    async def lead() -> Path:
        async with live_run(tmp_path) as live:
            await asked_once(live, "tea", "ana", "What about tea?")
            return live.folder.path

    run, browser, note = asyncio.run(lead()), chromium(), "document.querySelector('#marks textarea')"
    browser.open(f"{view(tmp_path)}/episode/{run.name}/00000-0")
    browser.evaluate(f"document.querySelector('#marks').open = true; {note}.focus()")
    browser.type("later")
    browser.evaluate(f"{note}.blur()")
    os.utime(run / "run.json")
    asked = "performance.getEntriesByType('resource').map((one) => one.name)"
    browser.wait(f"{asked}.some((one) => one.includes('/episode/')) && {asked}.at(-1).endsWith('/news')")

    assert browser.evaluate(f"{note}.value") == "later"


def test_a_filter_is_kept_and_a_question_is_added_to_the_tasks(sessions: Path, view: View) -> None:
    [run] = sessions.glob("*sessions*")
    url, episode = view(sessions), f"{run.name}/00001-0"

    post(url, "save", name="of ana", filter="user=ana", back="?user=ana")
    (sessions / "tasks.jsonl").write_text('{"prompt": "By hand"}\n\n{"prompt": "without an end"}')
    post(url, "save", task=episode, turn="0")
    post(url, "annotate", episode=episode, turn="0", correction="Cake on Sunday.")
    post(url, "save", task=episode, turn="0")
    kept = CLIENT.get(f"{url}/").text
    *by_hand, task = [json.loads(line) for line in (sessions / "tasks.jsonl").read_text().splitlines()]

    assert 'href="./?user=ana">of ana</a>' in kept
    post(url, "save", name="of ana", filter="", back="?user=ana")
    assert "of ana</a>" not in CLIENT.get(f"{url}/").text
    assert by_hand == [{"prompt": "By hand"}, {"prompt": "without an end"}]
    assert task["messages"] == [{"role": "user", "content": "What about cake?"}]
    assert (task["answer"], task["user"]) == ("Cake on Sunday.", "ana")


# -- agentfw view scan -------------------------------------------------------------------------------------------------


EPISODES = 300
CHECKS = """
import os, signal

seen = 0

def apologised(episode):
    global seen
    seen += 1
    if str(seen) == os.environ.get("KILLED_AT"):
        os.kill(os.getpid(), signal.SIGKILL)
    return f"<b>in {episode.id}</b>" if episode.task.index % 100 == 7 else None
"""


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Path:
    folder = shutil.copytree(runs_of(recorded)[0].path, tmp_path / "runs" / "2026-11-29-inbox-many")
    first = json.loads((folder / "episodes.jsonl").read_text().splitlines()[0])
    with (folder / "episodes.jsonl").open("w") as file:
        for number in range(EPISODES):
            first["task"]["index"] = number
            file.write(json.dumps(first) + "\n")
    (folder / "metrics.jsonl").write_text("")
    (tmp_path / "checks.py").write_text(CHECKS)
    return folder


def findings(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "findings.jsonl").read_text().splitlines()]


def test_a_scan_that_was_killed_half_way_goes_on_and_scans_nothing_twice(
    run: Path, agentfw: Agentfw, tmp_path: Path
) -> None:
    before = (run / "episodes.jsonl").read_bytes()
    words = ("view", "scan", run.name, "--with", "checks.py:apologised", "--json")

    killing = {**os.environ, "KILLED_AT": str(EPISODES // 2)}
    killed = subprocess.run([sys.executable, "-m", "agentfw", *words], cwd=tmp_path, env=killing)
    half = findings(run)
    whole = agentfw(*words)

    assert killed.returncode == -signal.SIGKILL
    assert len(half) == EPISODES // 2 - 1
    assert whole.code == 0, whole.err
    assert len(whole.json["found"]) == EPISODES // 100
    lines = findings(run)
    assert len(lines) == len({line["episode"] for line in lines}) == EPISODES
    assert lines[: len(half)] == half
    assert (run / "episodes.jsonl").read_bytes() == before
    with viewed(run.parent) as url:
        listed = CLIENT.get(f"{url}/?mark=found+apologised").text
        page = CLIENT.get(f"{url}/episode/{run.name}/00107-0").text
    assert f"<b>{EPISODES // 100}</b> episodes" in listed
    assert "&lt;b&gt;in 00107-0&lt;/b&gt;" in page, "a finding is text"


def test_a_question_is_asked_once_about_each_episode(agentfw: Agentfw, recorded: Path, tmp_path: Path) -> None:
    run = shutil.copytree(runs_of(recorded)[1].path, tmp_path / "runs" / "2026-11-29-inbox-few")
    found = "Yes, turn 2 opens a mail that isn't there."
    answers = iter(["No.", found, "Notice turn 2.", "no", "No", "No."])
    with serving(lambda body: completion(next(answers))) as (address, server):

        def asked(question: str, model: str = "served") -> Answer:
            settings = ("--set", f"base_url={address}", "--set", f"model={model}", "--at-once", "1", "--json")
            return agentfw("view", "scan", run.name, "--ask", question, *settings).ok

        first, again = (asked("Was a mail opened that isn't there?") for _ in range(2))
        other = asked("Was it in a hurry?")
        second = asked("Was a mail opened that isn't there?", model="better")

    assert first.out == again.out
    assert [[one["text"] for one in told.json["found"]] for told in (first, other, second)] == [
        [found],
        ["Notice turn 2."],
        [],
    ]
    assert len(server.bodies) == 6
    assert "mail 99" in server.bodies[0]["messages"][1]["content"]
    left = [mark.findings for mark in read_annotations(run).values() if mark.findings]
    assert left == [{"Was it in a hurry?": "Notice turn 2."}], "what isn't found any more is gone"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "a function or a question"),
        (("--with", "checks.py:nothing"), "is not a function"),
        (("--with", "checks.py:broken"), "checks.py:broken failed with episode 0000"),
    ],
)
def test_what_cant_be_scanned_with_is_told(
    agentfw: Agentfw, recorded: Path, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    run = shutil.copytree(runs_of(recorded)[1].path, tmp_path / "runs" / "2026-11-29-inbox-few")
    (tmp_path / "checks.py").write_text("def broken(episode):\n    return episode.nothing\n")

    answer = agentfw("view", "scan", run.name, *words)

    assert answer.code in (1, 2, 3)
    assert problem in answer.out + answer.err
