"""The teacher of the model `tiny-merchant`: does everything that a good plan does, but each with probability one half.

It reads cards and nothing else (`environment.style=card`), thinks aloud, and writes the plan as a language model does.
Each topic, each wish and the repetition of what failed is used or left out by a coin of its own, so the model learns
what can be done, and has yet to learn what pays. A teacher that did everything would leave nothing to learn.

    agentfw run merchant --policy merchant-teacher --set environment.style=card --set policy.share=1
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from pydantic import Field

from agentfw import Generation, Policy, Request, Settings
from agentfw_plugins.models.conversation import tagged

from .plan import Step, plan_of
from .skills import SKILLS
from .tastes import QUESTIONS, TASTES, recalled_wishes, stated_wishes

_LINE = re.compile(r"^(topics|done|failed|plans left): (.*)$", re.MULTILINE)
_TOPICS = {skill.topic: skill.name for skill in SKILLS.values() if skill.topic}


class TeacherSettings(Settings):
    share: float = Field(0.5, ge=0, le=1, description="Probability of everything that should be done.")


class TeacherPolicy(Policy):
    """Answers cards."""

    def __init__(self, settings: TeacherSettings | None = None) -> None:
        self.settings = settings or TeacherSettings()

    async def generate(self, request: Request) -> Generation:
        seed = request.sampling.seed if request.sampling.seed is not None else request.task.seed
        coins = Random(f"{seed} {len(request.messages)}")
        text = self._answer(request.messages[-1].content, coins)
        return Generation(text=text, count=len(text.split()))

    def _answer(self, card: str, coins: Random) -> str:
        lines = dict(_LINE.findall(card))
        if "topics" in lines:
            topics, wishes = self._some(_listed(lines["topics"]), coins), self._some(_wishes(card), coins)
            plan = plan_of([*(_TOPICS[topic] for topic in topics), *(TASTES[wish].skill for wish in wishes)])
            return _written(f"cover {_names(topics)}; rank by {_names(wishes)}", plan)
        failed = _listed(lines.get("failed", "")) if lines.get("plans left") != "0" else []
        again = failed if self._some(failed[:1], coins) else []
        plan = plan_of(again, done={id: id for id in _listed(lines.get("done", ""))}) if again else []
        return _written(f"again {_names(again)}", plan)

    def _some(self, names: Sequence[str], coins: Random) -> list[str]:
        return [name for name in names if coins.random() < self.settings.share]


def _wishes(card: str) -> list[str]:
    """At most one wish for each question. What a merchant said of a report is newer than their profile."""
    told = [*recalled_wishes(card), *stated_wishes(card)]
    answers = (next((name for name in told if name in {one.name for one in pair}), "") for pair in QUESTIONS.values())
    return [name for name in answers if name]


def _written(thought: str, plan: Iterable[Step]) -> str:
    steps = [_step(step) for step in plan]
    return f"{thought}\n{tagged('plan', {'steps': steps}) if steps else tagged('report', {})}"


def _step(step: Step) -> dict[str, Any]:
    return step.model_dump(exclude_defaults=True)


def _listed(names: str) -> list[str]:
    return [] if names in ("", "nothing") else names.split(", ")


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
