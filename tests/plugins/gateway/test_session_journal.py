"""Trainings learn from the sessions that gateways share, and sessions are deleted from their database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import Agentfw

from agentfw import Episode, Host, Message, Task, Turn
from agentfw.episode import Event
from agentfw.errors import UsageError
from agentfw.runs import read_sessions
from agentfw.testing import fresh_host

pytest.importorskip("sqlalchemy")

from agentfw_plugins.gateway.learning.shared_versions import SharedVersionFile
from agentfw_plugins.gateway.sessions import session_store
from agentfw_plugins.gateway.sessions.session_database import LEARNING
from agentfw_plugins.gateway.sessions.session_store import Chosen, SessionJournal, SessionStore, copied
from agentfw_plugins.rewards.measured import feedback_of


@pytest.fixture(scope="module")
def host() -> Host:
    return fresh_host(builtins=True, strict=False)


@pytest.fixture
def where(postgres_database: Callable[[], str]) -> str:
    return postgres_database()


@pytest.fixture
def store(where: str) -> Iterator[SessionStore]:
    store = SessionStore(where, lease=600)  # longer than any test, however busy the machine
    yield store
    store.close()


def say(store: SessionStore, name: str, *, liked: float | None = None, user: str = "ada") -> None:
    shared = store.begin(name, 0, user)
    assert shared is not None
    task = Task(shared.number, 0, user=user, query=name)
    messages = [Message("user", f"Which tea for {name}?"), Message("assistant", "mint")]
    turn = Turn(0, 0.0, 1.0, shown=(0,), text="mint", token_ids=(5, 6), logprobs=(-0.5, -0.25))
    store.append(shared.number, 0, Episode(task, messages=messages, turns=[turn]).to_record(), user=user, first=name)
    store.give_back(shared.number)
    if liked is not None:
        rate(store, name, liked)


def rate(store: SessionStore, name: str, value: float) -> None:
    shared = store.take(name)
    assert shared is not None
    task = Task(shared.number, 0, user=shared.user, query=name)
    event = Event(2.0, "observation", "feedback", {"value": value, "turn": 0})
    news = Episode(task, events=[event]).to_record()
    store.append(shared.number, shared.version, news, user=shared.user, first=name)
    store.give_back(shared.number)


def end(store: SessionStore, name: str) -> None:
    shared = store.take(name)
    assert shared is not None
    news = Episode(Task(shared.number, 0, user=shared.user, query=name)).to_record()
    store.append(shared.number, shared.version, news, user=shared.user, first=name, finish="done")
    store.conclude(shared.number, 0.0, None)


def test_a_training_learns_from_all_feedback_that_there_is(
    store: SessionStore, where: str, host: Host, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="there is no feedback in the sessions"):
        copied(where, host, tmp_path)
    say(store, "a", liked=1.0)
    say(store, "later")
    first = copied(where, host, tmp_path)
    rate(store, "later", -1.0)

    second = copied(where, host, tmp_path)

    def rated_in(folders: list[Path]) -> dict[str, list[float]]:
        episodes = [episode for folder in folders for episode in read_sessions(folder)]
        return {one.task.query: [value for _, value, *_ in feedback_of(one)] for one in episodes}

    assert rated_in(first) == {"a": [1.0]}
    assert rated_in(second) == {"a": [1.0], "later": [-1.0]}


def test_ended_sessions_are_dropped_after_a_while_and_feedback_when_a_training_has_it(
    anywhere: str, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, journal = SessionStore(anywhere), SessionJournal(anywhere)
    for name in "ab":
        say(store, name, liked=1.0)
        end(store, name)
    say(store, "unrated")
    end(store, "unrated")
    say(store, "goes on", liked=1.0)

    def names() -> list[str]:
        return [one.task.query for one in journal.sessions(Chosen())]

    assert (journal.drop_ended(3600), names()) == (0, ["a", "b", "unrated", "goes on"]), "not long ago"
    assert (journal.drop_ended(0), names()) == (1, ["a", "b", "goes on"]), "feedback waits for a training"
    copied(anywhere, host, tmp_path)
    versions = SharedVersionFile(tmp_path / "run", anywhere)
    versions.create()
    assert journal.drop_ended(0) == 0, "gateways learn from the newest feedback, whoever has a copy"
    monkeypatch.setattr(session_store, "MOST", 2)
    assert (journal.drop_ended(0), names()) == (1, ["b", "goes on"])
    with versions.database.transaction() as connection:
        connection.execute(LEARNING.delete())
    assert (journal.drop_ended(0), names()) == (1, ["goes on"])
    versions.close()
    for one in (store, journal):
        one.close()


def test_sessions_are_deleted_by_user_key_and_age_but_not_in_the_middle_of_an_answer(
    store: SessionStore, where: str, agentfw: Agentfw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_store, "_PAGE", 20)
    for number in range(45):  # more than are read at a time
        say(store, f"shop:{number}", user=f"u{number % 3}")
    say(store, "shop_:other", user="u0")
    held = store.take("shop:3")
    journal = SessionJournal(where)

    none = journal.delete(Chosen(before=1.0))
    command = ("serve", "sessions", "delete", where, "--user", "u0", "--key", "shop")
    done = agentfw(*command, "--json", "--yes")
    rest = {(episode.task.user, episode.task.query.partition(":")[0]) for episode in journal.sessions(Chosen())}

    unsure = agentfw(*command)

    assert (unsure.code, "--yes" in unsure.err) == (2, True)
    assert held is not None
    assert none == (0, 0)
    assert done.json == {"deleted": 14, "in_use": 1}, "one is being answered"
    assert rest == {("u0", "shop"), ("u1", "shop"), ("u2", "shop"), ("u0", "shop_")}
    assert store.take("shop:3") is not None
    assert store.records(held.number), "the session in progress has all that was said"
    journal.close()


@pytest.mark.nightly
def test_what_gateways_have_recorded_trains_a_model(
    store: SessionStore, where: str, agentfw: Agentfw, small_model: Path
) -> None:
    for number in range(12):
        say(store, f"s{number}", liked=1.0)
    words = ["updates=1", "tasks=2", "evaluation.tasks=1", "sampling.max_tokens=4"]
    words += [f"{one}.model={small_model}" for one in ("policy", "learner")]

    done = agentfw("train", "--from", where, "--json", *(part for word in words for part in ("--set", word)))

    assert done.code == 0, done.err
