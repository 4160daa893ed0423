"""The reward `keypoints` on episodes of the assistant: what the judge is shown, and what becomes of its marks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from agentfw import Engagement, Episode, Generation, Moment, Policy, PolicyAgent, Request
from agentfw.episode import Usage
from agentfw.errors import RequestRefusedError
from agentfw.testing import fresh_host
from agentfw_papers.rewards.keypoints import Keypoints
from agentfw_papers.worlds.assistant.environment import Assistant
from agentfw_plugins.policies.scripted import ScriptedPolicy

SHOWN: list[str] = []


def strict(moment: Moment) -> Iterator[str]:
    """A judge that is given the points, and fails where the request is about music."""
    question = moment.observations[0].text
    SHOWN.append(question)
    count = question.count(". (")
    marks = {"procedure": 5, "personal": 1, "proactive": 4}
    yield "I can't say." if "music" in question else json.dumps({"points": [2] * count, "marks": marks})


def episodes(count: int) -> list[Episode]:
    env = Assistant()
    tasks = env.tasks(count, 7, "test")
    return [asyncio.run(Engagement(Assistant(), PolicyAgent(ScriptedPolicy())).run(task)) for task in tasks]


def made() -> Keypoints:
    rule = {"policy": {"name": "scripted", "settings": {"rule": f"{__name__}:strict"}}, "retries": 0}
    reward = fresh_host("agentfw_papers.plugin:plugin", builtins=True, strict=False).create("reward", "keypoints", rule)
    assert isinstance(reward, Keypoints)
    return reward


def scored(group: list[Episode]) -> dict[str, dict[str, Any]]:
    reward = made()
    scores = asyncio.run(reward.score(group))
    asyncio.run(reward.close())
    return {one.id: {score.component: score for score in scores if score.episode == one.id} for one in group}


def test_marks_become_components_on_their_tracks_and_a_failure_teaches_nothing() -> None:
    SHOWN.clear()
    group = episodes(24)

    found = scored(group)

    failed = [one for one in found.values() if one["keypoints_failed"].value]
    assert 0 < len(failed) < len(found)
    for scores in found.values():
        values = {name: score.value for name, score in scores.items() if score.counts}
        assert values == {"keypoints_procedure": 1.0, "keypoints_personal": 0.2, "keypoints_proactive": 0.8}
    tracks = {name: score.track for name, score in next(iter(found.values())).items()}
    assert (tracks["keypoints_personal"], tracks["keypoints_procedure"]) == ("personal", "base")


def test_the_judge_is_shown_the_points_and_no_hidden_figure() -> None:
    SHOWN.clear()
    scored(episodes(12))

    assert all("(procedure) something was chosen for" in question for question in SHOWN)
    assert any("(proactive) what was booked" in question for question in SHOWN)
    assert not any("satisfaction" in question or "verdict" in question for question in SHOWN)


class Served(Policy):
    """A judge on a server that counts its tokens, and rejects questions from the second on."""

    def __init__(self, *, rejects_from: int) -> None:
        self.asked, self.rejects_from = 0, rejects_from

    async def generate(self, request: Request) -> Generation:
        self.asked += 1
        if self.asked >= self.rejects_from:
            raise RequestRefusedError("the prompt is too long", fix="ask less")
        assert request.moment is not None
        (text,) = strict(request.moment)
        return Generation(text, usage=Usage(100, 40, 7))


def test_the_tokens_of_the_judge_are_those_of_all_questions() -> None:
    reward = made()
    reward.policy = judge = Served(rejects_from=100)
    group = episodes(6)

    first = asyncio.run(reward.score(group))
    again = asyncio.run(reward.score(group))

    used = sum((score.usage for score in first), Usage(0, 0, 0))
    repeated = sum((score.usage for score in again), Usage(0, 0, 0))
    failed = sum(score.value for score in again if score.component == "keypoints_failed")
    assert used == Usage(600, 240, 42)
    assert repeated.prompt == 100 * failed, "marks that are known cost nothing"
    assert judge.asked == 6 + failed
