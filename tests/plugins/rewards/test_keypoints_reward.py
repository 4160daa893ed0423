"""The reward `keypoints` on episodes of the assistant: what the judge is shown, and what becomes of its marks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from agentfw import Engagement, Episode, Moment, PolicyAgent
from agentfw.testing import fresh_host
from agentfw_plugins.policies.scripted import ScriptedPolicy
from agentfw_plugins.rewards.keypoints import Keypoints
from agentfw_plugins.worlds.assistant.environment import Assistant

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


def scored(group: list[Episode]) -> dict[str, dict[str, Any]]:
    rule = {"policy": {"name": "scripted", "settings": {"rule": f"{__name__}:strict"}}, "retries": 0}
    reward = fresh_host(builtins=True, strict=False).create("reward", "keypoints", rule)
    assert isinstance(reward, Keypoints)
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
