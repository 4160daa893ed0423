"""The small models that ship: one command makes one model, from lessons that can be read; and what they can do."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import pytest
from make_tiny_assistant import lessons_of as lessons_of_the_assistant
from make_tiny_proactive import PIECES, lessons_of

from agentfw import Engagement, Environment, Episode, Host, PolicyAgent
from agentfw.request import Sampling
from agentfw.runs import read_spec
from agentfw.turns.parsing import parse_calls
from agentfw_papers.timing import read_answer
from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_papers.worlds.assistant.catalogue import load_domains
from agentfw_papers.worlds.assistant.environment import Assistant
from agentfw_papers.worlds.budget.environment import Budget
from agentfw_papers.worlds.merchant.environment import MerchantMarket
from agentfw_papers.worlds.merchant.merchant_settings import MerchantSettings
from agentfw_papers.worlds.merchant.plan import plan_of
from agentfw_papers.worlds.merchant.skills import SKILLS
from agentfw_papers.worlds.merchant.tastes import TASTES
from agentfw_papers.worlds.proactive.environment import Proactive
from agentfw_papers.worlds.proactive.settings import ProactiveSettings
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
    (episode,) = played(Budget, str(tmp_path / "one"), 1, 8)
    assert episode.turns[0].count > 0


def test_lessons_of_the_assistant_are_cards_and_answers_that_go_by_what_can_be_read() -> None:
    lessons = lessons_of_the_assistant(200, 7)

    names = [call for one in load_domains("").values() for call in one.calls]
    names += ["calendar_add", "mail_search", "mail_send", "answer"]
    assert all(len(parse_calls(answer, names).calls) == 1 for _, answer in lessons)
    assert sum("\N{REPLACEMENT CHARACTER}" in messages[-1].content for messages, _ in lessons) > 50
    thought = [messages[-1].content for messages, answer in lessons if answer.startswith("think: ")]
    wishes = [wish for content in thought for wish in re.findall(r"prefer (\S+) ", content)]
    assert 0 < sum("\N{REPLACEMENT CHARACTER}" in wish for wish in wishes) < len(wishes) / 2


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


# -- what the models that ship can do with people they have not met ----------------------------------------------------


def played(make: Callable[[], Environment], model: str, count: int, tokens: int, split: str = "test") -> list[Episode]:
    """The first tasks of a split, all at once, by a model that ships."""
    policy = TinyPolicy(TinySettings(model=model))

    async def all_of_them() -> list[Episode]:
        tasks = make().tasks(count, 11, split)
        agents = [PolicyAgent(policy, sampling=Sampling(temperature=1.0, max_tokens=tokens)) for _ in tasks]
        both = zip(agents, tasks, strict=True)
        return await asyncio.gather(*(Engagement(make(), agent).run(task) for agent, task in both))

    return asyncio.run(all_of_them())


@pytest.mark.nightly
def test_the_one_for_sums_solves_new_ones_and_takes_no_notice_of_the_budget() -> None:
    outcomes = [episode.outcome for episode in played(Budget, "tiny-sums", 200, 256, "validation")]

    tokens = [fmean(one[name] for one in outcomes if name in one) for name in (f"tokens@{n}" for n in (16, 32, 48, 64))]
    assert fmean(one["correct"] for one in outcomes) > 0.6
    assert max(tokens) < 1.5 * min(tokens)
    assert fmean(one["within"] for one in outcomes if "within@16" in one) < 0.5


def test_the_proactive_one_follows_people_and_is_unsure_when_to_be_ready() -> None:
    spec = read_spec(Path(Host.load().find_spec("train-proactive").path))
    settings = ProactiveSettings.model_validate(spec["environment"]["settings"])

    outcomes = [episode.outcome for episode in played(lambda: Proactive(settings), "tiny-proactive", 100, 96)]

    # Means over 100 turns; the standard error of each is below 0.05.
    means = {name: fmean(one[name] for one in outcomes if name in one) for name in ("format", "ac", "rar")}
    assert means["format"] >= 0.99
    assert means["ac"] >= 0.6
    assert 0.2 <= means["rar"] <= 0.6


@pytest.mark.nightly
def test_the_assistant_serves_users_and_is_unsure_what_is_worth_doing() -> None:
    settings = AssistantSettings(style="card", difficulty="hard")

    episodes = played(lambda: Assistant(settings), "tiny-assistant", 48, 64)

    turns = [turn for episode in episodes for turn in episode.turns]
    assert fmean(len(turn.calls) == 1 and not turn.failures for turn in turns) >= 0.95
    # Half of the faults are given up, so some requests are perfect and others are not.
    assert 0.1 <= fmean(episode.outcome["procedure"] == 5.0 for episode in episodes) <= 0.7
    assert fmean(episode.outcome["claimed_falsely"] for episode in episodes) <= 0.15
    right = [
        dict(re.findall(r"([\w-]+)=([A-E]+|none)", episode.messages[turn.shown[-1]].content)).get(value) == letters
        for episode in episodes
        for turn in episode.turns
        for value, letters in re.findall(r"(?:own|several|stated|no) ([\w-]+) ([A-E]+|none)", turn.text)
    ]
    # One of 32 sets of letters would be right by chance.
    assert len(right) > 30
    assert fmean(right) > 0.6


def test_the_merchants_one_plans_and_does_half_of_what_it_should() -> None:
    settings = MerchantSettings(style="card", outages=0.0)
    covered, unreadable, strays = [], 0, 0

    for episode in played(lambda: MerchantMarket(settings), "tiny-merchant", 100, 128):
        request = next(event.data for event in episode.events if event.name == "request")
        first = episode.turns[0]
        steps = [str(step.get("skill")) for call in first.calls for step in call.arguments.get("steps", ())]
        asked = [skill.name for skill in SKILLS.values() if skill.topic in request["topics"]]
        thought = first.text.partition("\n")[0]
        covered += [SKILLS[name].topic in thought.partition(";")[0] for name in asked]
        wished = {TASTES[name].skill for name in request["stated"].values()}
        unreadable += bool(first.failures or any(call.id in episode.failed_calls for call in first.calls))
        strays += not set(steps) <= {step.skill for step in plan_of([*asked, *wished])}
    # 400 topics, with a standard error of 0.025; and 100 plans, of which 2 and 20 were measured.
    assert 0.35 < fmean(covered) < 0.65
    assert unreadable <= 10
    assert strays <= 35
