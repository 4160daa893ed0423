"""The merchant world for models with a short memory: cards, and the teacher that plans from them."""

from __future__ import annotations

import asyncio
from typing import Any

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


def test_the_teacher_repeats_what_failed() -> None:
    teacher = TeacherPolicy(TeacherSettings(share=1.0))

    for task in world().tasks(20, 7, "test"):
        often, never = (play(task, teacher, style="card", outages=outages) for outages in (0.3, 0.0))

        assert often.outcome["authenticity"] == never.outcome["authenticity"]
        assert often.outcome["logic"] == never.outcome["logic"]
        assert len(often.turns) == (3 if often.outcome["failed_steps"] else 2)
