"""The maker of `tiny-assistant`: the same command makes the same model, from lessons that hold what was shown."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest
from make_tiny_assistant import lessons_of, main

from agentfw import Engagement, PolicyAgent
from agentfw.turns.parsing import parse_calls
from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_papers.worlds.assistant.catalogue import load_domains
from agentfw_papers.worlds.assistant.environment import Assistant
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings

SETTINGS = AssistantSettings(style="card")


@pytest.mark.nightly
def test_the_same_command_makes_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    for name in ("one", "two"):
        monkeypatch.setattr(
            sys,
            "argv",
            ["make_tiny_assistant.py", str(tmp_path / name), "--lessons", "60", "--steps", "2", "--exercises", "2"],
        )
        assert main() == 0

    made = {name: (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")}
    assert made["one"] == made["two"]
    agent = PolicyAgent(TinyPolicy(TinySettings(model=str(tmp_path / "one"), max_tokens=8)))
    episode = asyncio.run(Engagement(Assistant(SETTINGS), agent).run(Assistant(SETTINGS).tasks(1, 11, "test")[0]))
    assert episode.turns[0].count > 0


@pytest.mark.slow
def test_lessons_are_cards_and_answers_with_one_call_that_goes_by_what_can_be_read() -> None:
    lessons = lessons_of(400, 7)

    names = [call for one in load_domains("").values() for call in one.calls]
    names += ["calendar_add", "mail_search", "mail_send", "answer"]
    assert all(len(parse_calls(answer, names).calls) == 1 for _, answer in lessons)
    assert sum("\N{REPLACEMENT CHARACTER}" in messages[-1].content for messages, _ in lessons) > 100
    wishes = [
        found
        for messages, answer in lessons
        if answer.startswith("think: ")
        for found in re.findall(r"prefer (\S+) ", messages[-1].content)
    ]
    assert 0 < sum("\N{REPLACEMENT CHARACTER}" in wish for wish in wishes) < len(wishes) / 2
