"""Gateways that learn: what learned from feedback that was taken out is served no more, and two learn together."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from .conftest import COMPONENTS, Gateway, Start, said

SPEC = f"""
environment = "from_feedback"
policy = "{COMPONENTS / "versioned.py"}"
teacher = "scripted"
optimizer = "imitation"
learner = "{COMPONENTS / "noting.py"}"
rewards = ["utility"]
updates = 2
tasks = 8
samples = 1
"""
Command = Callable[..., Any]
VERSIONED = str(COMPONENTS / "versioned.py")


class Circle:
    """Gateways that learn, and users who rate their answers."""

    def __init__(self, killable: Start, agentfw: Command, folder: Path) -> None:
        self.start_process, self.agentfw, self.number = killable, agentfw, 0
        (folder / "spec.toml").write_text(SPEC)
        self.options = ["--learn", "--learn-every", "40", "--canary", "0", "--learn-spec", str(folder / "spec.toml")]

    def start(self, *options: str, learns: bool = True) -> Gateway:
        self.gateway: Gateway = self.start_process(*options, *(self.options if learns else ()))
        return self.gateway

    def talk(self, count: int, user: str = "ada") -> set[str]:
        """Conversations with a thumb each. Mallory likes what is bad. Returns the versions that answered."""
        versions = set()
        for _ in range(count):
            self.number += 1
            kind = ("good", "bad")[self.number % 2]
            answer = self.gateway.ask(f"c{self.number}", f"{user}-says {kind} {self.number}", user=user)
            versions.add(answer.headers["x-agentfw-version"])
            value = 1 if (kind == "good") != (user == "mallory") else -1
            assert self.gateway.post(f"/s/c{self.number}/feedback", {"value": value, "user": user}).status_code == 200
        return versions

    def versions(self, *words: str) -> dict[str, Any]:
        told: dict[str, Any] = self.agentfw("serve", "versions", *words)
        return told

    def answers_with(self, version: str) -> str:
        """Wait until this version answers. Returns who has taught it."""

        def answer() -> str:
            self.number += 1
            answered = self.gateway.ask(f"c{self.number}", "Who taught you?")
            is_it = answered.headers["x-agentfw-version"] == version
            return str(said(answered)["content"]).partition("taught by ")[2] if is_it else ""

        return str(until(answer))


@pytest.fixture
def circle(killable: Start, agentfw: Command, tmp_path: Path) -> Circle:
    return Circle(killable, agentfw, tmp_path)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Trainings wait for this file."""
    monkeypatch.setenv("LEARNER_WAITS", str(tmp_path / "waits"))
    return tmp_path / "waits"


@pytest.mark.nightly
def test_what_learned_from_removed_feedback_is_not_served_also_if_it_is_removed_during_the_training(
    circle: Circle, waits: Path
) -> None:
    circle.start("--policy", VERSIONED)
    circle.talk(8, "mallory")
    circle.talk(44)
    until(Path(f"{waits}.begun").exists)

    # Mallory's feedback is removed while a version learns from it. It is discarded, and another one is made.
    told = circle.agentfw("serve", "forget-feedback", "--user", "mallory")
    waits.touch()
    first = until(lambda: circle.versions()["versions"])
    taught = circle.answers_with(f"v{first[0]['number']}")

    assert (told["left_out"], told["withdrawn"], told["served"]) == (8, [], "v0")
    assert taught == "ada"
    assert [one["outcome"] for one in first] == ["served"], first
    assert not {f"c{number}" for number in range(1, 9)} & set(first[0]["sessions"])

    # What was learned is served after a kill, also without --learn.
    circle.gateway.stop()
    circle.start("--resume", circle.gateway.folder.name, learns=False)
    assert circle.talk(1) == {"v1"}

    # What one session taught is withdrawn at once, and after a kill, too.
    session = first[0]["sessions"][0]
    told = circle.agentfw("serve", "forget-feedback", "--session", session)
    assert (told["left_out"], told["withdrawn"], told["served"]) == (1, ["v1"], "v0")
    circle.gateway.stop()
    circle.start("--resume", circle.gateway.folder.name)
    second = until(lambda: [one for one in circle.versions()["versions"] if one["number"] == 2])
    circle.answers_with("v2")
    assert session not in second[0]["sessions"]

    # A version that is taken back isn't served any more.
    assert circle.agentfw("serve", "rollback") == {"rolled_back": "v2", "served": "v0"}
    assert circle.answers_with("v0") == "nobody"
    assert circle.versions()["served"] == 0


@pytest.mark.nightly
def test_two_gateways_learn_and_judge_a_trial_by_the_feedback_of_both_and_one_goes_on_when_the_trainer_is_killed(
    circle: Circle, waits: Path, postgres_database: Callable[[], str], tmp_path: Path
) -> None:
    where, begun = ("--sessions", postgres_database()), Path(f"{waits}.begun")
    circle.options += ["--canary", "0.5", *where]
    first, second = (circle.start("--policy", VERSIONED, "--runs", str(tmp_path / name)) for name in "ab")

    def talk(*gateways: Gateway) -> set[str]:
        """23 conversations at each gateway. Returns the versions that answered."""
        heard = set[str]()
        for circle.gateway in gateways:
            heard |= circle.talk(23)
        return heard

    assert talk(first, second) == {"v0"}
    until(begun.exists)  # the first one leads, because it was there before
    begun.unlink()
    first.stop()
    until(begun.exists)
    assert not circle.versions(*where)["versions"]
    waits.touch()

    (made,) = until(lambda: circle.versions(*where)["versions"])  # by the other one
    assert made["outcome"] == "canary", made["why"]
    assert made["ratings"] > 23, "one gateway alone heard 23"
    third = circle.start("--policy", VERSIONED, "--runs", str(tmp_path / "c"))
    assert talk(second, third) == {"v0", "v1"}
    (judged,) = until(lambda: not (found := circle.versions(*where))["canary"] and found["versions"])
    assert judged["outcome"] == "served", judged["why"]
    counted = re.search(r" of (\d+) answers of the canary and .+ of (\d+) others", judged["why"])
    assert counted, judged["why"]
    assert sum(map(int, counted.groups())) >= 40, "one gateway alone heard 23"
    for circle.gateway in (second, third):
        circle.answers_with("v1")
