"""A gateway that learns: what beats what, what is served, and that feedback over HTTP makes a better version."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentfw.errors import UsageError
from agentfw.runs import read_sessions
from agentfw_plugins.gateway.learning.comparison import compare
from agentfw_plugins.gateway.learning.ratings import read_ratings
from agentfw_plugins.gateway.learning.version_file import Removal, State, Version, VersionFile
from agentfw_plugins.models.locate import locate

from . import killing

SPEC = """
environment = "from_feedback"
policy = "tiny"
teacher = "scripted"
optimizer = "imitation"
learner = { name = "sft", settings = { weights = "all", learning_rate = 2e-4 } }
rewards = ["utility"]
updates = 10
tasks = 16
samples = 1

[evaluation]
every = 10
tasks = 8
sampling = { temperature = 0.0 }
"""


def test_thumbs_that_say_nothing_make_a_version_better_no_more_often_than_the_level() -> None:
    draw = random.Random(7)
    found = [
        compare([draw.gauss(0.2, 1) for _ in range(30)], [number % 3 == 0 for number in range(30)], seed)
        for seed in range(200)
    ]

    # 10 of 200 are expected at the level of 0.05; more than 21 would be seen in one of a thousand cases.
    assert sum(one.better for one in found) <= 21


def test_liked_answers_that_become_likelier_than_disliked_ones_are_better_but_not_if_both_become_less_likely() -> None:
    likes = [number % 2 == 0 for number in range(20)]
    changes = [0.5 if like else -0.5 for like in likes]

    assert compare(changes, likes).better
    assert not compare([1.0] * 20, likes).better, "all answers are likelier"
    assert not compare([change - 2 for change in changes], likes).better, "something else is said instead"
    assert not compare([-change for change in changes], likes).better


def state() -> State:
    versions = [
        Version(1, 1.0, "served", 0, "00001/a", ["one"]),
        Version(2, 2.0, "rejected", 1),
        Version(3, 3.0, "served", 1, "00003/a", ["one", "two"]),
        Version(4, 4.0, "canary", 3, "00004/a", ["three"]),
    ]
    return State(versions, served=3, canary=4, share=0.25)


def test_rolling_back_takes_the_canary_and_then_one_served_version_after_the_other() -> None:
    rolled = state()

    assert [rolled.roll_back() for _ in range(3)] == [(4, 3), (3, 1), (1, 0)]
    with pytest.raises(UsageError, match="nothing to roll back"):
        rolled.roll_back()


def test_versions_that_learned_from_removed_feedback_are_withdrawn_and_the_newest_other_one_is_served() -> None:
    removed, all_removed, none_removed = state(), state(), state()

    assert removed.remove(Removal(session="two"), {"two"}) == [3]
    assert (removed.served, removed.canary, removed.rebuild) == (1, 4, True)
    assert all_removed.remove(Removal(until=9.0), {"one", "two", "three"}) == [1, 3, 4]
    assert (all_removed.served, all_removed.canary) == (0, 0)
    assert none_removed.remove(Removal(user="eve"), set()) == []
    assert (none_removed.served, none_removed.canary, none_removed.rebuild) == (3, 4, False)


def test_a_canary_has_its_share_of_the_sessions_and_keeps_them() -> None:
    given = state()
    names = [f"s{number}" for number in range(2000)]
    versions = [given.for_session(name) for name in names]

    # 500 are expected, and 5 standard deviations are 97.
    assert abs(versions.count(4) - 500) < 97
    assert versions == [given.for_session(name) for name in names]
    given.judge(worse=True, why="")
    assert {given.for_session(name) for name in names} == {3}


def test_a_change_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = VersionFile(tmp_path)
    file.create()
    with file.change() as changed:
        changed.served, changed.versions = 1, state().versions
        changed.removals.append(Removal("ada", since=5.0))
    with pytest.raises(ZeroDivisionError), file.change() as changed:
        changed.served = 1 // 0

    assert VersionFile(tmp_path).read() == State(state().versions, served=1, removals=[Removal("ada", since=5.0)])
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert Removal("ada", since=5.0).holds("ada", "tea", 6.0)
    assert not Removal("ada", since=5.0).holds("ada", "tea", 4.0)
    assert not Removal("ada", since=5.0).holds("Ada", "tea", 6.0)


def test_learning_is_refused_where_it_can_not_be_done(tmp_path: Path) -> None:
    def refused(*words: str) -> str:
        process = killing.begun(tmp_path, *words)
        _, error = process.communicate(timeout=120)
        assert process.returncode == 2
        return error

    assert "can't learn while it serves" in refused(
        "--policy", "scripted", "--set", 'policy.replies=["Hello."]', "--learn"
    )
    assert "share their sessions" in refused("--policy", "tiny", "--learn", "--sessions", str(tmp_path / "shared.db"))
    assert "add --learn" in refused("--policy", "tiny", "--canary", "0.1")


class Circle:
    """A gateway that learns, and users who like one kind of answer."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number, self.draw = folder, 0, random.Random(7)
        (folder / "spec.toml").write_text(SPEC)
        self.options = ["--learn", "--learn-every", "60", "--learn-spec", str(folder / "spec.toml")]
        model = ["--policy", "tiny", "--set", "policy.model=tiny-assistant"]
        self.process, self.url, self.run = killing.start(folder / "runs", *model, *self.options)

    def talk(self, count: int, liked: str = "<calendar", user: str = "ada") -> list[dict[str, str]]:
        """Conversations with a thumb each. Returns the headers of the answers."""
        headers = []
        with httpx.Client(timeout=60) as client:
            for _ in range(count):
                session, self.number = f"{self.url}/s/c{self.number}", self.number + 1
                question = f"{self.draw.choice(['tea', 'bread', 'rice'])} {self.draw.randint(1, 99)}"
                message = {"role": "user", "content": question}
                body = {"model": "agentfw", "temperature": 1, "max_tokens": 60, "user": user, "messages": [message]}
                answer = client.post(f"{session}/v1/chat/completions", json=body).raise_for_status()
                text = answer.json()["choices"][0]["message"]["content"]
                rating = {"value": "up" if text.startswith(liked) else "down", "user": user}
                client.post(f"{session}/feedback", json=rating).raise_for_status()
                headers.append(dict(answer.headers))
        return headers

    def command(self, *words: str) -> Any:
        command = [sys.executable, "-m", "agentfw", "serve", *words, "--runs", str(self.folder / "runs"), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def until_served(self, version: str) -> None:
        end = time.monotonic() + 300
        while self.talk(1)[0]["x-agentfw-version"] != version:
            assert time.monotonic() < end


@pytest.fixture
def circle(tmp_path: Path) -> Iterator[Circle]:
    found = Circle(tmp_path)
    yield found
    found.process.kill()
    found.process.communicate()


@pytest.mark.slow
def test_a_version_that_is_served_survives_a_kill_and_is_taken_back_by_command(circle: Circle) -> None:
    assert circle.talk(3)[0]["x-agentfw-version"] == "v0"
    file = VersionFile(circle.run)
    version = Version(1, 1.0, "served", 0, "00001/weights", ["c0"])
    shutil.copytree(locate("tiny-assistant"), file.adapter(version))
    with file.change() as changed:
        changed.versions.append(version)
        changed.served = 1
    circle.until_served("v1")

    circle.process.kill()
    circle.process.communicate()
    circle.process, circle.url, _ = killing.start(circle.folder / "runs", "--resume", str(circle.run))
    assert circle.talk(1, user="mallory")[0]["x-agentfw-version"] == "v1", "also without --learn"
    assert read_sessions(circle.run)[-1].turns[0].version == "v1"

    assert circle.command("rollback") == {"rolled_back": "v1", "served": "v0"}
    circle.until_served("v0")
    told = circle.command("forget-feedback", "--user", "mallory")
    assert (told["withdrawn"], told["served"]) == ([], "v0")
    assert {one.user for one in read_ratings(circle.run, file.read().removals)} == {"ada"}
