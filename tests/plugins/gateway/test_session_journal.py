"""Trainings learn from the sessions that gateways share: from all feedback once, whatever is killed in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from agentfw import Episode, Host, Message, Run, Task, Turn
from agentfw.episode import Event
from agentfw.errors import UsageError
from agentfw.runs import RunFolder, parse_spec, start_from_runs
from agentfw.testing import fresh_host
from agentfw_plugins.gateway.live import Limits

from .conftest import served

pytest.importorskip("sqlalchemy")

from agentfw_plugins.gateway.learning.shared_versions import SharedVersionFile
from agentfw_plugins.gateway.sessions.copied_sessions import copied
from agentfw_plugins.gateway.sessions.session_database import LEARNING
from agentfw_plugins.gateway.sessions.session_journal import Chosen, SessionJournal
from agentfw_plugins.gateway.sessions.session_store import SessionStore
from agentfw_plugins.worlds.from_feedback import read_examples


@pytest.fixture(scope="module")
def host() -> Host:
    return fresh_host(builtins=True, strict=False)


@pytest.fixture
def where(postgres_database: Callable[[], str]) -> str:
    return postgres_database()


@pytest.fixture
def store(where: str) -> Iterator[SessionStore]:
    store = SessionStore(where)
    yield store
    store.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from agentfw import Host, Run
from agentfw.runs import parse_spec, start_from_runs
from agentfw_plugins.gateway.sessions import copied_sessions, session_journal

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

where, root, moment = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
if moment == "before anything is taken":
    session_journal.SessionJournal.take = die
if moment == "while it is copied":
    copied_sessions.feedback_of = die
values = start_from_runs([where], root)(Host.load(), None, None)
if moment == "when it is copied":
    die()
Run.create(parse_spec(values | {"policy": "tiny", "tasks": 1}), Host.load(), root)
die()
"""


def say(store: SessionStore, name: str, *, liked: float | None = None, user: str = "ada") -> None:
    """A session of one answer, and perhaps feedback on it."""
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


def learned(folders: list[Path]) -> Counter[tuple[str, float]]:
    """What a training learns from these runs: which questions, and what was thought of the answers."""
    return Counter((one.messages[0].content, one.value) for one in read_examples(folders, 0.5))


def asked(*names: str) -> Counter[tuple[str, float]]:
    return Counter((f"Which tea for {name}?", 1.0) for name in names)


def train(host: Host, root: Path, folders: list[Path]) -> Run:
    """A training that has begun."""
    values = start_from_runs([str(folder) for folder in folders], root)(host, None, None)
    return Run.create(parse_spec(values | {"policy": "tiny", "tasks": 1}), host, root)


def test_each_training_learns_what_was_said_since_the_one_before(
    store: SessionStore, where: str, host: Host, tmp_path: Path
) -> None:
    for name in "abc":
        say(store, name, liked=1.0)
    say(store, "later")
    first = copied(where, host, tmp_path)
    train(host, tmp_path, first)
    for name in "de":
        say(store, name, liked=1.0)
    rate(store, "later", 1.0)
    (lock,) = [RunFolder.open(folder) for folder in first]

    second = copied(where, host, tmp_path)

    assert learned(first) == asked("a", "b", "c")
    assert learned(second) == asked("d", "e", "later"), "feedback on an old session is new, too"
    assert lock.state == "running", "no other process takes the copy"


def test_feedback_that_is_too_little_waits_for_more(
    store: SessionStore, where: str, host: Host, tmp_path: Path
) -> None:
    say(store, "a", liked=1.0)
    script = (
        "import sys; from pathlib import Path; from agentfw.runs import start_from_runs; from agentfw import Host\n"
    )
    script += "start_from_runs([sys.argv[1]], Path(sys.argv[2]))(Host.load(), None, None)"
    subprocess.run([sys.executable, "-c", script, where, str(tmp_path)], check=True)
    with pytest.raises(UsageError, match="are in 1 conversation"):
        learned([path.parent for path in tmp_path.glob("*/run.json")])
    for name in "bc":
        say(store, name, liked=1.0)
    end(store, "a")
    journal = SessionJournal(where)
    assert journal.drop_ended(0) == 1, "it is in the copy"
    journal.close()

    folders = copied(where, host, tmp_path)

    assert learned(folders) == asked("a", "b", "c")
    assert len(list(tmp_path.glob("*/run.json"))) == 1, "the copy of the first attempt is taken up"


def end(store: SessionStore, name: str) -> None:
    shared = store.take(name)
    assert shared is not None
    news = Episode(Task(shared.number, 0, user=shared.user, query=name)).to_record()
    store.append(shared.number, shared.version, news, user=shared.user, first=name, finish="done")
    store.conclude(shared.number, 0.0, None)


def test_ended_sessions_are_dropped_after_a_while_and_feedback_when_a_training_has_it(
    anywhere: str, tmp_path: Path
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
    journal.take("copy")
    assert journal.drop_ended(0) == 0, "this training has no copy of what it took yet"
    journal.copied("copy")
    versions = SharedVersionFile(tmp_path / "run", anywhere)
    versions.create()
    assert journal.drop_ended(0) == 0, "gateways learn from the newest feedback, whoever has a copy"
    with versions.database.transaction() as connection:
        connection.execute(LEARNING.delete())
    assert (journal.drop_ended(0), names()) == (2, ["goes on"])
    versions.close()
    for one in (store, journal):
        one.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment", ["before anything is taken", "while it is copied", "when it is copied", "when there is a training"]
)
def test_a_kill_loses_nothing_and_nothing_is_learned_twice(
    moment: str, store: SessionStore, where: str, host: Host, tmp_path: Path
) -> None:
    for name in "abc":
        say(store, name, liked=1.0)
    command = [sys.executable, "-c", KILLED, where, str(tmp_path), moment]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    for name in "def":
        say(store, name, liked=1.0)
    before = [RunFolder.open(path.parent) for path in tmp_path.glob("*/run.json")]

    after = learned(copied(where, host, tmp_path))

    begun = [str(run.about["spec"]["environment"].get("settings", {}).get("runs", [""])[0]) for run in before]
    resumed = learned([Path(name) for name in begun if name]) if any(begun) else Counter[tuple[str, float]]()
    assert resumed == (asked("a", "b", "c") if moment == "when there is a training" else Counter())
    assert resumed + after == asked(*"abcdef")


def test_trainings_of_two_machines_at_once_share_the_feedback(
    store: SessionStore, where: str, host: Host, tmp_path: Path
) -> None:
    for name in "abc":
        say(store, name, liked=1.0)

    one, other = copied(where, host, tmp_path / "one"), copied(where, host, tmp_path / "other")

    assert learned(one) == asked("a", "b", "c")
    with pytest.raises(UsageError, match="are in 0 conversations"):
        learned(other)


def test_a_session_that_goes_on_is_not_changed_for_the_training_that_has_it(
    store: SessionStore, where: str, tmp_path: Path
) -> None:
    say(store, "a", liked=1.0)
    journal = SessionJournal(where)
    journal.take("mine")
    before = [episode.to_record() for episode in journal.taken("mine")]
    rate(store, "a", -1.0)
    journal.take("theirs")

    after = [episode.to_record() for episode in journal.taken("mine")]
    (theirs,) = journal.taken("theirs")

    journal.close()
    assert after == before
    assert [event.data["value"] for event in theirs.events] == [-1.0], "only what is new"


def test_sessions_are_deleted_by_user_key_and_age_but_not_in_the_middle_of_an_answer(
    store: SessionStore, where: str
) -> None:
    for number in range(450):  # more than are read at a time
        say(store, f"shop:{number}", user=f"u{number % 3}")
    say(store, "shop_:other", user="u0")
    store.lease = 1000.0
    held = store.take("shop:3")
    journal = SessionJournal(where)

    none = journal.delete(Chosen(before=1.0))
    command = [sys.executable, "-m", "agentfw", "serve", "sessions", "delete", where, "--user", "u0", "--key", "shop"]
    done = subprocess.run([*command, "--json", "--yes"], check=True, capture_output=True, text=True)
    rest = {(episode.task.user, episode.task.query.partition(":")[0]) for episode in journal.sessions(Chosen())}

    unsure = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    assert (unsure.returncode, "--yes" in unsure.stderr) == (2, True)
    assert held is not None
    assert none == (0, 0)
    assert json.loads(done.stdout) == {"deleted": 149, "in_use": 1}, "one is being answered"
    assert rest == {("u0", "shop"), ("u1", "shop"), ("u2", "shop"), ("u0", "shop_")}
    assert store.take("shop:3") is not None
    assert store.records(held.number), "the session in progress has all that was said"
    journal.close()


def test_answers_are_exported_with_their_tokens_and_feedback(store: SessionStore, where: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    for number in range(250):  # more than are read at a time
        say(store, f"s{number}", liked=-1.0 if number == 7 else None, user=f"u{number % 2}")
    file = tmp_path / "answers.parquet"
    command = [sys.executable, "-m", "agentfw", "serve", "sessions", "export", where, str(file), "--user", "u1"]

    subprocess.run(command, check=True)

    rows = parquet.read_table(file).to_pylist()
    assert [row["session"] for row in rows] == [f"s{number}" for number in range(1, 250, 2)]
    assert [row["session"] for row in rows if row["feedback"] is not None] == ["s7"]
    said = {key: rows[3][key] for key in ("user", "turn", "question", "answer", "feedback", "token_ids", "logprobs")}
    assert said == {
        "user": "u1",
        "turn": 0,
        "question": "Which tea for s7?",
        "answer": "mint",
        "feedback": -1.0,
        "token_ids": [5, 6],
        "logprobs": [-0.5, -0.25],
    }
    assert os.stat(file).st_mode & 0o077 == 0, "only its owner reads what people said"


@pytest.mark.nightly
def test_what_people_say_to_two_gateways_trains_a_model(where: str, small_model: Path, tmp_path: Path) -> None:
    replies = {"policy": "scripted", "assignments": ['policy.replies=["mint tea"]']}
    with (
        served(tmp_path / "a", Limits(shared=where), **replies) as a,
        served(tmp_path / "b", Limits(shared=where), **replies) as b,
    ):
        for number in range(12):
            one, other = (a, b) if number % 2 else (b, a)
            messages = [{"role": "user", "content": f"Which tea at {number}?"}]
            url = f"{one.session(f's{number}')}/chat/completions"
            httpx.post(url, json={"model": "scripted", "messages": messages}, timeout=30).raise_for_status()
            told = {"value": 1, "turn": 0}
            httpx.post(f"{other.url}/s/s{number}/feedback", json=told, timeout=30).raise_for_status()
    settings = ["--set", f"policy.model={small_model}", "--set", f"learner.model={small_model}"]
    small = ["--set", "updates=1", "--set", "tasks=2", "--set", "evaluation.tasks=1", "--set", "sampling.max_tokens=4"]
    command = [sys.executable, "-m", "agentfw", "train", "--from", where, "--runs", str(tmp_path / "runs"), "--json"]

    done = subprocess.run([*command, *settings, *small], capture_output=True, text=True)
    again = subprocess.run([*command, *settings, *small], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert again.returncode == 2, "there is nothing new to learn from"
    assert "in 0 conversations" in again.stderr
