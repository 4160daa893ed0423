"""The maker of `tiny-merchant`: the same command makes the same model."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from make_tiny_merchant import PIECES, lessons_of, main

from agentfw.turns.parsing import parse_calls
from agentfw_papers.worlds.merchant.skills import SKILLS


@pytest.mark.nightly
def test_the_same_command_makes_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    for name in ("one", "two"):
        size = ["--merchants", "2", "--days", "1", "--steps", "2"]
        monkeypatch.setattr(sys, "argv", ["make_tiny_merchant.py", str(tmp_path / name), *size])
        assert main() == 0

    made = {name: (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")}
    assert made["one"] == made["two"]


@pytest.mark.slow
def test_lessons_are_cards_with_recalled_wishes_and_plans_of_few_tokens() -> None:
    lessons = lessons_of(2, 6, 7)

    cards = [messages[-1].content for messages, _ in lessons]
    assert any("You remember:" in card and "prefer products" in card for card in cards)
    for _, answer in lessons:
        (call,) = parse_calls(answer, ["plan", "report"]).calls
        assert all(step["skill"] in SKILLS for step in call.arguments.get("steps", ()))
        pieces = re.findall(PIECES, answer)
        assert "".join(pieces) == answer
        assert len(pieces) < 100
