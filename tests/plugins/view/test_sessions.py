"""Sessions of a gateway in `agentfw view`: in progress, streamed, cut off, and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asynchronous import asynchronous

from agentfw import Episode, Generation, Message, Policy, Request, Task, Turn
from agentfw.episode import Call, Event, Usage
from agentfw.request import Action
from agentfw.runs import LiveRun, parse_spec
from agentfw.testing import fresh_host
from agentfw_plugins.view.episode_view import EpisodeView
from agentfw_plugins.view.index import Index
from agentfw_plugins.view.search import Filter, find, of_task, parts_of

from .test_view import read


class Echo(Policy):
    async def generate(self, request: Request) -> Generation:
        calls = tuple(Call(action.name, {}, "c1") for action in request.actions)
        return Generation(f"You said: {request.messages[-1].content}", calls, version="echo", usage=Usage(3, None, 2))


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
        for text, actions in (("Which tea is it?", [Action("look", "Look", {})]), ("And which cake?", [])):
            said = [*said, Message("user", text)]
            reply = await session.answer(said, actions)
            said = [*said, reply.message, *(Message("tool", "Error: no tea", answers=call.id) for call in reply.calls)]
            await live.keep(session)
            found.append(seen(index))
        session.feedback(1.0)
        await live.conclude(session)
        found.append(seen(index))
        cake, coffee = seen(index, text="cake"), seen(index, text="coffee")
        looked = seen(index, tool="look", failure="refused")

    first, second, ended = found
    assert [row["state"] for row in (*first, *second, *ended)] == ["in progress", "in progress", "ended"]
    assert [row["turns"] for row in (*first, *second, *ended)] == [1, 2, 2]
    assert (first[0]["query"], first[0]["user"], first[0]["begins"]) == ("tea", "ada", "Which tea is it?")
    assert [row["reward"] for row in ended] == [1.0]
    assert [row["prompt_tokens"] for row in (*first, *second, *ended)] == [3, 6, 6]
    assert [row["tools"].split() for row in (*second, *looked)] == [["look"], ["look"]]
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


@asynchronous
async def test_sessions_of_the_same_names_in_two_runs_have_nothing_to_do_with_each_other(tmp_path: Path) -> None:
    for _ in range(2):
        async with live_run(tmp_path) as live:
            for session in (live.begin("lead"), live.begin("part")):
                if session.name == "part":
                    session.note("session", "part_of", {"session": "lead"})
                await session.answer([Message("user", f"I am {session.name}")])
                await live.keep(session)
    index = Index(tmp_path)
    leads = seen(index, text="lead")

    with index.reading() as rows:
        found = [(parts_of(rows, row), of_task(rows, row)) for row in leads]
    assert [[(one["query"], one["run"]) for one in parts] for parts, _ in found] == [
        [("part", row["run"])] for row in leads
    ]
    assert [[one["id"] for one in same] for _, same in found] == [[row["id"]] for row in leads]
    assert len(leads) == 2


def test_what_is_recalled_said_of_it_and_scored_is_shown_with_the_answer_that_it_belongs_to() -> None:
    calls = (
        Call("look", {}, "c1"),
        Call("book", {"day": 7}, "c2"),
    )  # of which a program gives each answer's first `c1`
    turns = [Turn(0, 1.0, 2.0, calls=calls), Turn(1, 3.0, 4.0, shown=(0,), calls=calls[:1])]
    results = [Message("tool", told, answers="c1") for told in ("rain", "sun")]
    episode = Episode(Task(0, seed=1), turns=turns, messages=results)
    for text, time in (("Likes tea.", 0.9), ("Lives in Rome.", 2.9), ("Asked, and not answered.", 4.9)):
        episode.events.append(Event(time, "memory", "recalled", {"text": text}))
    for about in ({"value": -1, "turn": 0, "text": "no"}, {"value": 1, "turn": None, "text": "fine"}):
        episode.events.append(Event(5.0, "observation", "feedback", about))
    episode.events.append(Event(5.0, "refused", "book", {"id": "c2", "text": "day 7 is taken"}))

    scores = [["clear", "base", value, None, turn, 2.0] for turn, value in enumerate((1.0, 0.0))]
    view = EpisodeView({}, episode, "", {"scores": scores})
    first, second = view.turns

    assert [call.problem for call in first.calls] == ["", "day 7 is taken"]
    assert [shown.calls[0].answer for shown in (first, second)] == ["rain", "sun"]
    told = [[one["text"] for one in some] for some in (first.feedback, second.feedback, view.feedback)]
    assert told == [["no"], [], ["fine"]]
    assert [shown.scores[0].value for shown in (first, second)] == [1.0, 0.0]
    assert [(part["count"], part["value"], part["adds"]) for part in view.parts] == [(2, 0.5, 2.0)]
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
