"""Sessions of a gateway in `agentfw view`: in progress, streamed, cut off, and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asynchronous import asynchronous

from agentfw import Episode, Generation, Message, Policy, Request, Task, Turn
from agentfw.episode import Event
from agentfw.runs import LiveRun, parse_spec
from agentfw.testing import fresh_host
from agentfw_plugins.view.episode_view import EpisodeView
from agentfw_plugins.view.index import Index
from agentfw_plugins.view.search import Filter, find

from .test_view import read


class Echo(Policy):
    async def generate(self, request: Request) -> Generation:
        return Generation(f"You said: {request.messages[-1].content}", version="echo")


def live_run(runs: Path) -> LiveRun:
    values = {"environment": "sessions", "policy": "scripted", "rewards": ["feedback"]}
    live = LiveRun.create(parse_spec(values), fresh_host(builtins=True), runs)
    live.assembly.policy.inside = Echo()
    return live


def seen(index: Index, **wanted: str) -> list[dict[str, Any]]:
    index.refresh()
    with index.reading() as rows:
        return find(rows, Filter.of(wanted)).rows


@asynchronous
async def test_a_session_is_found_while_it_goes_on_and_once_when_it_has_ended(tmp_path: Path) -> None:
    found, said = list[list[dict[str, Any]]](), list[Message]()
    async with live_run(tmp_path) as live:
        index = Index(tmp_path)
        session = live.begin("tea", user="ada")
        for text in ("Which tea is it?", "And which cake?"):
            said = [*said, Message("user", text)]
            reply = await session.answer(said)
            said = [*said, reply.message]
            await live.keep(session)
            found.append(seen(index))
        session.feedback(1.0)
        await live.conclude(session)
        found.append(seen(index))
        cake, coffee = seen(index, text="cake"), seen(index, text="coffee")

    first, second, ended = found
    assert [row["state"] for row in (*first, *second, *ended)] == ["in progress", "in progress", "ended"]
    assert [row["turns"] for row in (*first, *second, *ended)] == [1, 2, 2]
    assert (first[0]["query"], first[0]["user"], first[0]["begins"]) == ("tea", "ada", "Which tea is it?")
    assert [row["reward"] for row in ended] == [1.0]
    assert len(cake) == 1
    assert coffee == []


@asynchronous
async def test_what_is_streamed_and_what_was_cut_off_is_shown_as_such(tmp_path: Path) -> None:
    class Stuck(Echo):
        told = asyncio.Event()

        async def stream(self, request: Request, tell: Any) -> Generation:
            tell("It begins and ")
            self.told.set()
            await asyncio.Event().wait()
            raise AssertionError

    async with live_run(tmp_path) as live:
        index, policy = Index(tmp_path), Stuck()
        live.assembly.policy.inside = policy
        session = live.begin("tea")
        asking = asyncio.create_task(session.answer([Message("user", "Go on")], tell=lambda piece: None))
        await policy.told.wait()
        while not list(live.folder.path.glob("streams/*")):
            await asyncio.sleep(0.05)
        await live.keep(session)
        streamed = opened(index)
        asking.cancel()
        await asyncio.wait([asking])
        await live.keep(session)
        while list(live.folder.path.glob("streams/*")):
            await asyncio.sleep(0.05)
        cut = opened(index)

    assert [one["text"] for one in streamed.streams] == ["It begins and "]
    assert streamed.cut_off == []
    assert [one["text"] for one in cut.cut_off] == ["It begins and "]
    assert cut.streams == []
    assert cut.row["cut_off"] == 1


def test_what_is_recalled_is_shown_with_the_answer_that_it_was_recalled_for() -> None:
    episode = Episode(Task(0, seed=1), turns=[Turn(0, 1.0, 2.0), Turn(1, 3.0, 4.0)])
    for text, time in (("Likes tea.", 0.9), ("Lives in Rome.", 2.9), ("Asked, and not answered.", 4.9)):
        episode.events.append(Event(time, "memory", "recalled", {"text": text}))

    first, second = EpisodeView({}, episode, "", {}).turns

    assert [[one["text"] for one in shown.recalled] for shown in (first, second)] == [
        ["Likes tea."],
        ["Lives in Rome."],
    ]


def opened(index: Index) -> EpisodeView:
    [row] = seen(index)
    with index.reading() as rows:
        return EpisodeView.read(index, row, rows)


async def asked_once(live: LiveRun, name: str, user: str, text: str, policy: Policy | None = None) -> None:
    """A session of one question, which goes on."""
    session = live.begin(name, user=user)
    await session.answer([Message("user", text)], policy=policy)
    await live.keep(session)


@asynchronous
async def test_an_empty_answer_is_a_failure_and_the_page_of_the_run_has_the_user_who_got_it_first(
    tmp_path: Path, view: Callable[..., str]
) -> None:
    class Silent(Echo):
        async def generate(self, request: Request) -> Generation:
            return Generation("", version="silent")

    async with live_run(tmp_path) as live:
        for name, user, policy in (("tea", "ada", Echo()), ("cake", "bo", Silent()), ("rain", "cy", Echo())):
            await asked_once(live, name, user, f"And {name}?", policy)
            await live.conclude(live.sessions[name])
    url = view(tmp_path)
    page = read(f"{url}/run/{live.folder.id}")

    assert [row["query"] for row in seen(Index(tmp_path), failure="empty")] == ["cake"]
    assert "1 empty answer" in read(f"{url}/?failure=any")
    users, versions = page.index("Episodes by user"), page.index("Episodes by version")
    assert users < page.index("&user=bo") < page.index("&user=ada") < versions
    assert page.index("&version=silent") < page.index("&version=echo")


@asynchronous
async def test_words_are_found_as_they_are_written(tmp_path: Path) -> None:
    said = {
        "signs": "I don't know C++ or C#, it is -3 here",
        "others": "3 letters, don t and C",
        "paths": "see view.py",
    }
    async with live_run(tmp_path) as live:
        for name, text in said.items():
            await asked_once(live, name, "ada", text)
    wanted = {
        "don't": {"signs"},
        "don\u2019t": {"signs"},
        "C++": {"signs"},
        "c#": {"signs"},
        "-3": {"signs"},
        "3": {"signs", "others"},
        "view.py": {"paths"},
        "view": {"paths"},
        "know -3": {"signs"},
    }

    index = Index(tmp_path)
    assert {text: {row["query"] for row in seen(index, text=text)} for text in wanted} == wanted
