"""The maker of `tiny-proactive`: the same command makes the same model."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from make_tiny_proactive import PIECES, lessons_of, main

from agentfw import Engagement, PolicyAgent
from agentfw_papers.timing import read_answer
from agentfw_papers.worlds.proactive.environment import Proactive
from agentfw_papers.worlds.proactive.settings import ProactiveSettings
from agentfw_plugins.models.making import word_tokenizer
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings

SETTINGS = ProactiveSettings(
    flows=("account_access",), answers="lines", catalog="none", values="placeholder", dialogues=5, domain="abcd"
)


@pytest.mark.slow
def test_the_same_command_makes_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    for name in ("one", "two"):
        size = ["--dialogues", "10", "--lessons", "40", "--steps", "3"]
        monkeypatch.setattr(sys, "argv", ["make_tiny_proactive.py", str(tmp_path / name), *size])
        assert main() == 0

    made = {name: (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")}
    assert made["one"] == made["two"]
    agent = PolicyAgent(TinyPolicy(TinySettings(model=str(tmp_path / "one"))))
    episode = asyncio.run(Engagement(Proactive(SETTINGS), agent).run(Proactive(SETTINGS).tasks(1, 11, "test")[0]))
    assert episode.turns[0].count > 0


def test_lessons_are_what_the_environment_shows_and_answers_that_it_can_read() -> None:
    lessons = asyncio.run(lessons_of(SETTINGS, 40, 7))

    catalog = Proactive(SETTINGS).catalog
    for messages, answer in lessons:
        assert messages[-1].role == "user"
        assert "professional: " in messages[-1].content or "customer: " in messages[-1].content
        assert read_answer(answer, catalog).failures == ()
    tokenizer = word_tokenizer(lessons, PIECES)
    assert tokenizer.decode(tokenizer.encode("send-link pending email=<email> phone=?").ids, skip_special_tokens=False)
