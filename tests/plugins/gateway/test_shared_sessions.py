"""Sessions that several gateways lead: any of them answers, and nothing of it is lost, doubled or told to another."""

from __future__ import annotations

import asyncio
import errno
import math
import re
import shutil
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw
from serving_gateways import said, shared_session
from waiting import until

from agentfw import Message
from agentfw.errors import SettingsError, StorageError
from agentfw_plugins.gateway.handling import Caller
from agentfw_plugins.gateway.live import Limits, opened

from .conftest import CLIENT, Served, served

pytest.importorskip("sqlalchemy")

from sqlalchemy import update

from agentfw_plugins.gateway.sessions.session_database import GATEWAYS
from agentfw_plugins.gateway.sessions.session_store import SessionStore
from agentfw_plugins.gateway.sessions.shared_session_finder import SharedSessionFinder


@pytest.fixture
def two(anywhere: str, tmp_path: Path) -> Iterator[tuple[Served, Served]]:
    with ExitStack() as stack:
        a, b = (
            stack.enter_context(
                served(
                    tmp_path / name,
                    Limits(shared=anywhere, queue_timeout=10.0),
                    policy="scripted",
                    assignments=[f"policy.rule={served.__module__}:rule"],
                )
            )
            for name in "ab"
        )
        yield a, b


def test_any_gateway_goes_on_with_a_session(two: tuple[Served, Served], anywhere: str, agentfw: Agentfw) -> None:
    a, b = two

    first = said(a.ask("tea", "one", user="ada"))
    assert a.ask("tea", "mine?", user="eve").status_code == 403, "and keeps it from nobody"
    second = said(b.ask("tea", "one", first, "two", user="ada"))
    said(a.ask("tea", "one", first, "two", second, "three", user="ada"))
    given = CLIENT.post(f"{b.url}/s/tea/feedback", json={"value": 1, "turn": 1, "user": "ada"})
    store = SessionStore(anywhere)
    again = store.begin("again", 1, "ada")  # the second one of this name
    assert again is not None
    store.give_back(again.number)
    store.close()
    named = a.ask("again", "one", user="ada").headers["x-agentfw-session"]
    rated = [b.post(f"/s/{name}/feedback", {"value": 1, "user": "ada"}).status_code for name in (named, "again~3")]
    b.post(f"/s/{named}/end", {"user": "ada"}).raise_for_status()
    ended = CLIENT.post(f"{a.url}/s/tea/end", json={"user": "ada"})
    after = b.ask("tea", "four", user="ada")

    assert (named, rated) == ("again~2", [200, 410])
    assert (given.status_code, ended.status_code, after.status_code) == (200, 200, 410)
    assert ended.json()["reward"] == 1.0, "feedback that another gateway was given counts"
    episode = shared_session(anywhere, "tea")
    assert [turn.text for turn in episode.turns] == ["You said: one", "You said: two", "You said: three"]
    assert [turn.index for turn in episode.turns] == [0, 1, 2]
    written = {file.name for gateway in two for file in gateway.live.folder.path.iterdir()}
    assert written <= {"run.json", "lock", "calls.jsonl"}, "the database is the record, and nothing is written twice"
    listed = CLIENT.get(f"{b.url}/sessions", params={"user": "ada"}).json()["sessions"]
    assert [(one["session"], one["answers"], one["reward"]) for one in listed[1:]] == [("tea", 3, 1.0)]
    older = CLIENT.get(f"{b.url}/sessions", params={"user": "ada", "before": listed[1]["number"]}).json()
    assert older == {"sessions": [], "more": False}
    assert len(CLIENT.get(f"{b.url}/s/tea", params={"user": "ada"}).json()["turns"]) == 3
    wrong = ["tea%00", "tea~%00", "tea~9999999999", "tea~x"]
    assert {b.request("GET", f"/s/{name}").status_code for name in wrong} == {404}
    assert [one.status_code for one in (b.post("/s/tea%00/end"), b.ask("tea%00", "one"))] == [404, 400]
    said(b.ask("cake", "one", user="ben"))

    def shown() -> list[str]:
        page = CLIENT.get(f"{b.url}/view/").text
        return [name for name in ("tea", "cake") if re.search(rf"\b{name}\b", page)]

    until(lambda: shown() == ["tea", "cake"])  # any gateway shows what all have recorded
    name = re.findall(r'episode/([^"?]+)', CLIENT.get(f"{b.url}/view/").text)[0]
    judged = CLIENT.post(f"{b.url}/view/annotate", data={"episode": name, "star": "yes"})
    assert (judged.status_code, "agentfw feedback" in judged.text) == (400, True), "there is a copy here, which goes"
    CLIENT.post(f"{b.url}/view/save", data={"task": name, "turn": "0"})
    assert '"one"' in (b.folder.parent / "tasks.jsonl").read_text()
    assert agentfw("serve", "sessions", "delete", anywhere, "--user", "ada", "--yes").ok
    until(lambda: shown() == ["cake"])  # and nothing that was deleted


def test_the_pages_go_on_when_a_full_disk_has_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"policy": "scripted", "assignments": ['policy.replies=["Noted."]']}
    full = threading.Event()

    def no_room(*_: object) -> None:
        full.set()
        raise OSError(errno.ENOSPC, "No space left on device")

    with served(tmp_path, Limits(shared=str(tmp_path / "sessions.db")), **given) as gateway:
        said(gateway.ask("tea", "one"))
        until(lambda: "tea" in CLIENT.get(f"{gateway.url}/view/").text)
        said(gateway.ask("cake", "one"))
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "copy2", no_room)
            until(lambda: CLIENT.get(f"{gateway.url}/view/").is_success and full.is_set())
        until(lambda: {"tea", "cake"} <= {*re.findall(r"\w+", CLIENT.get(f"{gateway.url}/view/").text)})


def test_what_a_user_had_corrected_or_forgotten_comes_back_from_no_gateway(anywhere: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"policy": "scripted", "rewards": ["feedback"], "memories": ["skillgraph"]}
    options["assignments"] = ['policy.replies=["Fine."]', f"memory.skillgraph.path={tmp_path / 'memory.db'}"]
    limits = Limits(shared=anywhere)
    with served(tmp_path / "a", limits, **options) as a, served(tmp_path / "b", limits, **options) as b:
        for session in ("tea", "milk"):
            said(a.ask(session, "I keep bees.", user="ada"))
            b.post(f"/s/{session}/feedback", {"value": 1, "user": "ada", "words": "I prefer metric units."})
        [item] = until(lambda: a.request("GET", "/memory?user=ada").json()["items"])
        first = said(b.ask("plan", "What do my bees eat?", user="ada"))
        a.request("PATCH", f"/memory/{item['id']}?user=ada", json={"text": "I keep wasps."}).raise_for_status()
        said(b.ask("plan", "What do my bees eat?", first, "And now?", user="ada"))
        plan = shared_session(anywhere, "plan")
        shown = [plan.messages[turn.shown[0]].content for turn in plan.turns]
        assert ["bees" in shown[0], "wasps" in shown[1], "bees" in shown[1]] == [True, True, False]
        gone = b.request("DELETE", "/memory?user=ada").json()["deleted"]["skills"]
        for gateway, session in ((a, "tea"), (b, "milk")):
            gateway.post(f"/s/{session}/end", {"user": "ada"}).raise_for_status()

        assert (gone, a.remembered("ada")) == (1, [])


def test_a_conversation_without_a_name_is_found_by_its_last_answer(two: tuple[Served, Served]) -> None:
    a, b = two

    user = "ada" * 60  # the longest that there may be, about
    first = a.ask("", "one", user=user)
    second = b.ask("", "one", said(first), "two", user=user)
    alike = a.ask("", "one", user=user)
    third = b.ask("", "one", said(first), "two", said(second), "three", user=user)
    stranger = b.ask("", "one", said(first), "two", user="ben")
    name = first.headers["x-agentfw-session"]
    a.post(f"/s/{name}/end", {"user": user}).raise_for_status()
    after_its_end = b.ask("", "one", said(first), "two", said(second), "three", said(third), "four", user=user)

    with ThreadPoolExecutor(8) as threads:  # a model that is asked the same answers the same
        at_once = {*threads.map(lambda number: two[number % 2].ask("", "hello").status_code, range(24))}
    assert at_once == {200}
    answers = (first, second, third, alike, stranger, after_its_end)
    are_its = [answer.headers["x-agentfw-session"] == name for answer in answers]
    assert are_its == [True] * 3 + [False] * 3


def test_a_gateway_deletes_old_sessions_if_it_is_told_to(anywhere: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"policy": "scripted", "assignments": ['policy.replies=["Noted."]']}
    with served(tmp_path / "a", Limits(shared=anywhere, keep_ended=0.2), **options) as gateway:
        said(gateway.ask("ended", "one"))
        CLIENT.post(f"{gateway.url}/s/ended/end", json={}).raise_for_status()
        said(gateway.ask("goes-on", "one"))
        store = SessionStore(anywhere)
        until(lambda: store.take("ended") is None)
        store.close()

        assert gateway.ask("goes-on", "one", "two").status_code == 200


def test_an_unused_session_is_ended_once_and_begins_anew_under_its_name(anywhere: str, tmp_path: Path) -> None:
    limits = Limits(shared=anywhere, idle=0.4)
    rule = [f"policy.rule={served.__module__}:rule"]
    with (
        served(tmp_path / "a", limits, policy="scripted", assignments=rule) as a,
        served(tmp_path / "b", limits, policy="scripted", assignments=rule) as b,
    ):
        said(a.ask("tea", "one"))
        until(lambda: listed(a))
        ended = listed(a)
        again = said(b.ask("tea", "two"))
        read = a.request("GET", "/s/tea~2").json()["messages"]
        said(a.ask("tea", "three"))

    assert [one["content"] for one in read] == ["two"]
    assert [(one["session"], one["finish"]) for one in ended] == [("tea", "idle")]
    assert again["content"] == "You said: two"


@pytest.mark.nightly
def test_who_asks_while_an_unused_session_is_being_ended_gets_it_or_a_new_one(anywhere: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"policy": "scripted", "assignments": ['policy.replies=["Noted."]']}
    with served(tmp_path / "a", Limits(shared=anywhere, idle=0.1), **given) as gateway:
        for number in range(40):
            said(gateway.ask("tea", "one"))
            time.sleep(0.08 + number % 10 / 100)
        assert listed(gateway), "some of them were ended"


def test_a_session_that_is_ended_just_when_it_is_found_unused_is_ended_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end() -> float:
        async with opened(tmp_path, policy="scripted", assignments=['policy.replies=["Noted."]']) as live:
            finder, caller = SharedSessionFinder(live, str(tmp_path / "sessions.db"), idle=0.0), Caller("here")
            take_unused, found, goes_on = finder.store.take_unused, threading.Event(), threading.Event()

            def slowly(idle: float) -> object:
                taken = take_unused(idle)
                found.set()
                goes_on.wait()
                return taken

            session = await finder.find(caller, "tea", [])
            await session.answer([Message("user", "one")])
            session.feedback(1.0)
            await finder.keep(session)
            await finder.release(session)
            monkeypatch.setattr(finder.store, "take_unused", slowly)
            caring = asyncio.create_task(finder.care())
            await asyncio.to_thread(found.wait)
            async with finder.leading(caller, "tea") as session:
                goes_on.set()
                await asyncio.sleep(0)
                reward = await finder.end(session)
            await asyncio.wait([caring], timeout=0.3)
            assert not caring.done(), "the gateway is well"
            caring.cancel()
            await finder.close()
        return reward

    assert asyncio.run(end()) == 1.0


def listed(gateway: Served) -> list[dict[str, Any]]:
    """The sessions that have ended and were scored, as any gateway lists them."""
    found = CLIENT.get(f"{gateway.url}/sessions").json()["sessions"]
    return [one for one in found if one["reward"] is not None]


def test_what_is_said_again_or_late_to_the_store_changes_nothing(anywhere: str) -> None:
    store, other = SessionStore(anywhere), SessionStore(anywhere)
    tea = store.begin("tea", 0, "ada")
    assert tea is not None

    for _ in range(2):
        store.append(tea.number, 0, {"n": 1}, user="ada", first="tea")
    heard = [store.heard([(tea.number, *versions)]) for versions in ((2, 1), (1, 0), (2, 1), (1, 0))]

    if "://" in anywhere:  # JSON has no such number, and to ask again would not help
        with pytest.raises(StorageError, match="can't store this"):
            store.append(tea.number, 1, {"n": math.nan}, user="ada", first="tea")
        assert not store.database.breaks
    assert store.records(tea.number) == [{"n": 1}]
    assert heard == [[False], [True], [True], [False]], "in order, and never back"
    assert store.heard_of(tea.number) == 2
    assert other.take_unused(0.0) is None, "it is being answered"
    store.append(tea.number, 1, {}, user="ada", first="tea", finish="ended")
    store.close()  # before it was scored
    ended = other.take_unused(1000.0)
    assert ended is not None
    assert (ended.number, ended.finish) == (tea.number, "ended"), "somebody has to score it"
    other.close()


def test_the_file_is_private_and_other_databases_are_refused(tmp_path: Path) -> None:
    where = tmp_path / "old.db"
    with closing(sqlite3.connect(where)) as connection:
        connection.execute("CREATE TABLE agentfw_session (number INTEGER PRIMARY KEY, held_until FLOAT)")

    SessionStore(str(tmp_path / "sessions.db")).close()

    assert (tmp_path / "sessions.db").stat().st_mode & 0o777 == 0o600
    with pytest.raises(StorageError, match=r"can't make .*nowhere/sessions\.db: No such file"):
        SessionStore(str(tmp_path / "nowhere" / "sessions.db"))
    with pytest.raises(SettingsError, match="can't be shared at this address"):
        SessionStore("mysql://db/agentfw")
    with pytest.raises(SettingsError, match=r"another version of agentfw: the table agentfw_session .*held_until"):
        SessionStore(str(where))


def test_after_an_outage_no_gateway_calls_another_dead_before_it_could_speak(anywhere: str) -> None:
    ours, theirs = SessionStore(anywhere, lease=1000.0), SessionStore(anywhere, lease=0.0)
    with ours.database.transaction() as connection:
        connection.execute(update(GATEWAYS).values(alive_until=0.0))

    looks = [ours.say_alive().dead, ours.say_alive().dead]

    assert looks == [[], [theirs.holder]]
    for one in (ours, theirs):
        one.close()


def test_what_was_said_before_all_gateways_were_away_for_days_is_still_to_be_heard(anywhere: str) -> None:
    killed = SessionStore(anywhere)
    tea = killed.begin("tea", 0, "ada")
    assert tea is not None
    killed.append(tea.number, 0, {"events": [[0, "memory", "said", {}]]}, user="ada", first="tea")
    with killed.database.transaction() as connection:
        connection.execute(update(GATEWAYS).values(alive_until=0.0))

    started = SessionStore(anywhere)

    assert started.take_over(started.say_alive().dead, []) == [(tea.number, "ada")]
    for one in (killed, started):
        one.close()


def test_gateways_with_other_settings_and_a_wrong_clock_are_named_once(
    anywhere: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, right = Limits(shared=anywhere), time.time

    def warned() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.name.endswith("shared_session_finder")]

    with (
        served(tmp_path / "a", limits, policy="scripted", assignments=['policy.replies=["yes"]']),
        served(tmp_path / "b", limits, policy="scripted", assignments=['policy.replies=["no"]']),
    ):
        until(lambda: len(warned()) >= 2)
        monkeypatch.setattr(time, "time", lambda: right() - 3600)
        until(lambda: any("behind" in one for one in warned()))
        time.sleep(2.5)  # two more looks

    host = socket.gethostname()
    assert sum("shares these sessions with another policy than this one" in one for one in warned()) == 2
    assert all(f"gateway {host}" in one for one in warned() if "another policy" in one)
    assert sum(f"the clock of {host} is 3600 s behind" in one for one in warned()) == 2, "once by each"
