"""Sessions of a gateway in `agentfw view`: in progress, streamed, cut off, and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentfw import Generation, Message, Policy, Request
from agentfw.runs import LiveRun, parse_spec
from agentfw.testing import fresh_host
from agentfw_plugins.view.episode_view import EpisodeView
from agentfw_plugins.view.index import Index
from agentfw_plugins.view.pages import Links, Pages
from agentfw_plugins.view.search import Filter, find

from .conftest import HOST
from .test_view import read


class Echo(Policy):
    """Repeats what was said."""

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


def test_a_session_is_found_while_it_goes_on_and_once_when_it_has_ended(tmp_path: Path) -> None:
    async def lead() -> list[list[dict[str, Any]]]:
        found = []
        async with live_run(tmp_path) as live:
            index = Index(tmp_path)
            session = live.begin("tea", user="ada")
            said = [Message("user", "Which tea is it?")]
            for more in ("Which tea is it?", "And which cake?"):
                said = [*said, Message("user", more)] if len(said) > 1 else said
                reply = await session.answer(said)
                said = [*said, reply.message]
                await live.keep(session)
                found.append(seen(index))
            session.feedback(1.0)
            await live.conclude(session)
            found += [seen(index), seen(index, text="cake"), seen(index, text="coffee")]
        return found

    first, second, ended, cake, coffee = asyncio.run(lead())

    assert [row["state"] for row in (*first, *second, *ended)] == ["in progress", "in progress", "ended"]
    assert [row["turns"] for row in (*first, *second, *ended)] == [1, 2, 2]
    assert (first[0]["query"], first[0]["user"], first[0]["begins"]) == ("tea", "ada", "Which tea is it?")
    assert [row["reward"] for row in ended] == [1.0]
    assert len(cake) == 1
    assert coffee == []


def test_what_is_streamed_and_what_was_cut_off_is_shown_as_such(tmp_path: Path) -> None:
    class Stuck(Echo):
        told: asyncio.Event

        async def stream(self, request: Request, tell: Any) -> Generation:
            tell("It begins and ")
            self.told.set()
            await asyncio.Event().wait()
            raise AssertionError

    async def lead() -> tuple[EpisodeView, EpisodeView]:
        async with live_run(tmp_path) as live:
            index, policy = Index(tmp_path), Stuck()
            policy.told = asyncio.Event()
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
            return streamed, opened(index)

    streamed, cut = asyncio.run(lead())

    assert [one["text"] for one in streamed.streams] == ["It begins and "]
    assert streamed.cut_off == []
    assert [one["text"] for one in cut.cut_off] == ["It begins and "]
    assert cut.streams == []
    assert cut.row["cut_off"] == 1


def opened(index: Index) -> EpisodeView:
    [row] = seen(index)
    with index.reading() as rows:
        return EpisodeView.read(index, row, rows)


def test_what_somebody_thinks_of_an_answer_stands_below_it(tmp_path: Path) -> None:
    async def lead() -> EpisodeView:
        async with live_run(tmp_path) as live:
            session = live.begin("tea")
            await session.answer([Message("user", "Which tea is it?")])
            session.feedback(-1.0, words="too short", turn=0)
            session.feedback(0.5)
            await live.keep(session)
            return opened(Index(tmp_path))

    view = asyncio.run(lead())
    page = Pages(Links(), HOST).episode(view, [])

    assert [(one["value"], one["text"]) for one in view.turns[0].feedback] == [(-1.0, "too short")]
    assert [one["value"] for one in view.feedback] == [0.5]
    assert "rated bad: too short" in page
    assert "rated good (0.500)" in page


def test_an_empty_answer_is_a_failure_and_the_page_of_the_run_has_the_user_who_got_it_first(
    tmp_path: Path, view: Callable[..., str]
) -> None:
    class Silent(Echo):
        async def generate(self, request: Request) -> Generation:
            return Generation("", version="silent")

    async def lead() -> str:
        async with live_run(tmp_path) as live:
            for name, user, policy in (("tea", "ada", Echo()), ("cake", "bo", Silent()), ("rain", "cy", Echo())):
                session = live.begin(name, user=user)
                await session.answer([Message("user", f"And {name}?")], policy=policy)
                await live.keep(session)
                await live.conclude(session)
            return live.folder.id

    run = asyncio.run(lead())
    url = view(tmp_path)
    page = read(f"{url}/run/{run}")

    assert [row["query"] for row in seen(Index(tmp_path), failure="empty")] == ["cake"]
    assert "1 empty answer" in read(f"{url}/?failure=any")
    users, versions = page.index("Episodes by user"), page.index("Episodes by version")
    assert users < page.index("&user=bo") < page.index("&user=ada") < versions
    assert page.index("&version=silent") < page.index("&version=echo")


def test_words_are_found_as_they_are_written(tmp_path: Path) -> None:
    said = {
        "signs": "I don't know C++ or C#, it is -3 here",
        "others": "3 letters, don t and C",
        "paths": "see view.py",
    }

    async def lead() -> None:
        async with live_run(tmp_path) as live:
            for name, text in said.items():
                session = live.begin(name, user="ada")
                await session.answer([Message("user", text)])
                await live.keep(session)

    asyncio.run(lead())
    index = Index(tmp_path)
    found = {
        text: {row["query"] for row in seen(index, text=text)}
        for text in ("don't", "don’t", "C++", "c#", "-3", "3", "view.py", "view", "know -3")
    }

    assert found == {
        "don't": {"signs"},
        "don’t": {"signs"},
        "C++": {"signs"},
        "c#": {"signs"},
        "-3": {"signs"},
        "3": {"signs", "others"},
        "view.py": {"paths"},
        "view": {"paths"},
        "know -3": {"signs"},
    }
