"""A gateway that learns: what learned from feedback that was taken out is served no more, however it comes about."""

from __future__ import annotations

import json
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


class Circle:
    """A gateway that learns, and users who rate its answers."""

    def __init__(self, killable: Start, agentfw: Command, folder: Path) -> None:
        self.start_process, self.agentfw, self.folder, self.number = killable, agentfw, folder, 0
        (folder / "spec.toml").write_text(SPEC)
        self.options = ["--learn", "--learn-every", "40", "--canary", "0", "--learn-spec", str(folder / "spec.toml")]

    def start(self, *options: str) -> None:
        self.gateway: Gateway = self.start_process(*options, *self.options)

    def talk(self, count: int, user: str = "ada") -> None:
        """Conversations with a thumb each. Mallory likes what is bad."""
        for _ in range(count):
            self.number += 1
            kind = ("good", "bad")[self.number % 2]
            said(self.gateway.ask(f"c{self.number}", f"{user}-says {kind} {self.number}", user=user))
            value = 1 if (kind == "good") != (user == "mallory") else -1
            assert self.gateway.post(f"/s/c{self.number}/feedback", {"value": value, "user": user}).status_code == 200

    def answer(self) -> tuple[str, str]:
        """The version that answers, and who has taught it."""
        self.number += 1
        answer = self.gateway.ask(f"c{self.number}", "Who taught you?")
        return answer.headers["x-agentfw-version"], said(answer)["content"].partition("taught by ")[2]

    def versions(self) -> dict[str, Any]:
        told: dict[str, Any] = self.agentfw("serve", "versions")
        return told

    def answers_with(self, version: str) -> str:
        """Wait until this version answers. Returns who has taught it."""
        return str(until(lambda: (found := self.answer())[0] == version and found[1]))


@pytest.fixture
def circle(killable: Start, agentfw: Command, tmp_path: Path) -> Circle:
    return Circle(killable, agentfw, tmp_path)


@pytest.mark.nightly
def test_what_learned_from_removed_feedback_is_not_served_also_if_it_is_removed_during_the_training(
    circle: Circle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waits = tmp_path / "waits"
    monkeypatch.setenv("LEARNER_WAITS", str(waits))
    circle.start("--policy", str(COMPONENTS / "versioned.py"))
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
    assert json.dumps(circle.versions()["served"]) == "0"
