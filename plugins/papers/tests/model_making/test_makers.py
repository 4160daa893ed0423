"""The makers of the small models that ship: the same command makes the same model, from lessons that can be read."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from pathlib import Path

import pytest
from make_tiny_assistant import lessons_of as lessons_of_the_assistant
from make_tiny_merchant import PIECES as PIECES_OF_PLANS
from make_tiny_merchant import lessons_of as lessons_of_the_merchant
from make_tiny_proactive import PIECES, lessons_of

from agentfw import Engagement, PolicyAgent
from agentfw.turns.parsing import parse_calls
from agentfw_papers.timing import read_answer
from agentfw_papers.worlds.assistant.catalogue import load_domains
from agentfw_papers.worlds.budget.environment import Budget
from agentfw_papers.worlds.merchant.skills import SKILLS
from agentfw_papers.worlds.proactive.environment import Proactive
from agentfw_papers.worlds.proactive.settings import ProactiveSettings
from agentfw_plugins.models import locate
from agentfw_plugins.models.making import word_tokenizer
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings

SMALL = {
    "sums": ("--demonstrations", "40", "--steps", "3"),
    "proactive": ("--dialogues", "10", "--lessons", "40", "--steps", "3"),
    "assistant": ("--lessons", "60", "--steps", "2", "--exercises", "2"),
    "merchant": ("--merchants", "2", "--days", "1", "--steps", "2"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", SMALL)
def test_the_same_command_makes_the_same_model(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    for place in ("one", "two"):
        monkeypatch.setattr(sys, "argv", [f"make_tiny_{name}.py", str(tmp_path / place), *SMALL[name]])
        assert importlib.import_module(f"make_tiny_{name}").main() == 0

    assert (tmp_path / "one/model.safetensors").read_bytes() == (tmp_path / "two/model.safetensors").read_bytes()
    agent = PolicyAgent(TinyPolicy(TinySettings(model=str(tmp_path / "one"), max_tokens=8)))
    episode = asyncio.run(Engagement(Budget(), agent).run(Budget().tasks(1, 11, "test")[0]))
    assert episode.turns[0].count > 0


@pytest.mark.parametrize(("name", "megabytes"), [("assistant", 2), ("merchant", 1), ("proactive", 3)])
def test_a_model_that_ships_is_small(name: str, megabytes: int) -> None:
    assert sum(file.stat().st_size for file in locate(f"tiny-{name}").iterdir()) < megabytes * 1_000_000


@pytest.mark.slow
def test_lessons_of_the_assistant_are_cards_and_answers_that_go_by_what_can_be_read() -> None:
    lessons = lessons_of_the_assistant(400, 7)

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


@pytest.mark.nightly
def test_lessons_of_the_merchant_are_cards_with_recalled_wishes_and_plans_of_few_tokens() -> None:
    lessons = lessons_of_the_merchant(2, 6, 7)

    cards = [messages[-1].content for messages, _ in lessons]
    assert any("You remember:" in card and "prefer products" in card for card in cards)
    for _, answer in lessons:
        (call,) = parse_calls(answer, ["plan", "report"]).calls
        assert all(step["skill"] in SKILLS for step in call.arguments.get("steps", ()))
        pieces = re.findall(PIECES_OF_PLANS, answer)
        assert "".join(pieces) == answer
        assert len(pieces) < 100


def test_proactive_lessons_are_what_the_environment_shows_and_answers_that_it_can_read() -> None:
    settings = ProactiveSettings(
        flows=("account_access",), answers="lines", catalog="none", values="placeholder", dialogues=5, domain="abcd"
    )
    lessons = asyncio.run(lessons_of(settings, 40, 7))

    catalog = Proactive(settings).catalog
    for messages, answer in lessons:
        assert messages[-1].role == "user"
        assert "professional: " in messages[-1].content or "customer: " in messages[-1].content
        assert read_answer(answer, catalog).failures == ()
    tokenizer = word_tokenizer(lessons, PIECES)
    assert tokenizer.decode(tokenizer.encode("send-link pending email=<email> phone=?").ids, skip_special_tokens=False)
