"""The merchant world for models with a short memory: cards, and the teacher that plans from them."""

from __future__ import annotations

import asyncio
from statistics import fmean
from typing import Any

import pytest

from agentfw import Engagement, Episode, PolicyAgent, Task
from agentfw_papers.worlds.merchant.environment import MerchantMarket
from agentfw_papers.worlds.merchant.merchant_settings import MerchantSettings
from agentfw_papers.worlds.merchant.teacher import TeacherPolicy, TeacherSettings
from agentfw_plugins.policies.scripted import ScriptedPolicy


def world(**settings: Any) -> MerchantMarket:
    return MerchantMarket(MerchantSettings.model_validate(settings))


def play(task: Task, policy: Any, **settings: Any) -> Episode:
    return asyncio.run(Engagement(world(**settings), PolicyAgent(policy)).run(task))


def test_a_plan_is_worth_the_same_whatever_the_style_of_its_request() -> None:
    for task in world().tasks(12, 7, "test"):
        full, card = (play(task, ScriptedPolicy(), style=style) for style in ("full", "card"))

        assert full.outcome == card.outcome
        assert max(len(one.content) for one in card.messages if one.role == "user") < 700


def test_a_teacher_that_leaves_nothing_out_covers_all_topics_and_all_wishes() -> None:
    teacher = TeacherPolicy(TeacherSettings(share=1.0))

    for task in world().tasks(15, 7, "test"):
        episode = play(task, teacher, style="card", outages=0.0)

        assert episode.outcome["score"] == world().references(task)["stated profile"]["score"]


def test_the_teacher_repeats_what_failed() -> None:
    teacher = TeacherPolicy(TeacherSettings(share=1.0))

    for task in world().tasks(20, 7, "test"):
        often, never = (play(task, teacher, style="card", outages=outages) for outages in (0.3, 0.0))

        assert often.outcome["authenticity"] == never.outcome["authenticity"]
        assert often.outcome["logic"] == never.outcome["logic"]
        assert len(often.turns) == (3 if often.outcome["failed_steps"] else 2)


@pytest.mark.slow
def test_the_teacher_does_half_of_what_it_should_and_makes_no_mistakes() -> None:
    teacher = TeacherPolicy()

    episodes = [play(task, teacher, style="card", outages=0.0) for task in world().tasks(200, 7, "test")]

    assert not any(episode.failed_calls or turn.failures for episode in episodes for turn in episode.turns)
    assert all(episode.outcome["needless"] == 0 for episode in episodes)
    # Half of the four topics of each of 200 reports, with a standard error of 0.07.
    covered = [episode.turns[0].text.partition(";")[0].removeprefix("cover ") for episode in episodes]
    assert 1.7 < fmean(0 if one == "nothing" else len(one.split(", ")) for one in covered) < 2.3
