"""A judge that reads the transcript with care agrees with the rule marks of the assistant's world."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator

import pytest

from agentfw import Engagement, Moment, PolicyAgent
from agentfw.testing import fresh_host
from agentfw_papers.rewards.keypoints import Keypoints
from agentfw_papers.worlds.assistant.environment import Assistant
from agentfw_papers.worlds.assistant.linear_policy import LinearPolicy, LinearSettings

SCALE = 6
"""Shares of two and of three points are whole numbers on it."""


def attentive(moment: Moment) -> Iterator[str]:
    """A judge that counts a point only if a tool has answered so."""
    question = moment.observations[0].text
    (attempt,) = re.findall(r"<attempt-\w+>(.*?)</attempt-\w+>", question, re.DOTALL)
    answers = [json.loads(line) for line in attempt.strip().splitlines() if line.startswith("{")]
    heard = "\n".join(one["content"] for one in answers if one["role"] != "assistant")
    chosen = " ".join(re.findall(r"done: (.*)", heard))
    points, shares = [], dict[str, list[float]]()
    for head, point in re.findall(r"^\d+\. \((\w+)\) (.*)$", question, re.MULTILINE):
        if head == "personal":
            met = re.search(rf"\b{re.escape(point.partition(' is ')[2])}\b", chosen) is not None
        elif head == "proactive":
            met = ("in the calendar:" if "calendar" in point else "sent to guest") in heard
        else:
            met = bool(chosen)
        points.append(2 if met else 0)
        shares.setdefault(head, []).append(float(met))
    nothing_stated = 0.5 if chosen else 0.0
    default = {"procedure": 0.0, "personal": nothing_stated, "proactive": 1.0}
    marks = {
        head: round(SCALE * (sum(shares[head]) / len(shares[head]) if head in shares else default[head]))
        for head in default
    }
    yield json.dumps({"points": points, "marks": marks})


@pytest.mark.slow
def test_an_attentive_judge_marks_as_the_rules_do() -> None:
    rule = {"policy": {"name": "scripted", "settings": {"rule": f"{__name__}:attentive"}}, "scale": SCALE}
    judge = fresh_host("agentfw_papers.plugin:plugin", builtins=True, strict=False).create("reward", "keypoints", rule)
    assert isinstance(judge, Keypoints)
    policy = LinearPolicy(LinearSettings(recover=1.0))
    tasks = Assistant().tasks(120, 7, "test")
    played = [asyncio.run(Engagement(Assistant(), PolicyAgent(policy)).run(task)) for task in tasks]

    scores = asyncio.run(judge.score(played))

    marked = {(score.episode, score.component): score.value for score in scores}
    for head, figure in (("personal", "visible_personal"), ("proactive", "proactive")):
        ours = [episode.outcome[figure] / 5 for episode in played]
        theirs = [marked[episode.id, f"keypoints_{head}"] for episode in played]
        assert theirs == pytest.approx(ours)
        assert len(set(ours)) > 2
