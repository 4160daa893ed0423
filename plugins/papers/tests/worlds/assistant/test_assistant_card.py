"""The card: the same world for models that read one message, and the teacher of such a model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import yaml

from agentfw import Engagement, Episode, Intervention, Moment, PolicyAgent
from agentfw.errors import SettingsError
from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_papers.worlds.assistant.card_teacher import CardTeacher, CardTeacherSettings
from agentfw_papers.worlds.assistant.environment import Assistant
from agentfw_plugins.policies.scripted import ScriptedPolicy


def many(count: int, policy: Any = None, style: str = "card", **settings: Any) -> list[Episode]:
    def world() -> Assistant:
        return Assistant(AssistantSettings.model_validate({"style": style, **settings}))

    agents = (PolicyAgent(policy or ScriptedPolicy()) for _ in range(count))
    tasks = zip(agents, world().tasks(count, 7, "test"), strict=False)
    return [asyncio.run(Engagement(world(), agent).run(task)) for agent, task in tasks]


def cards(episode: Episode) -> list[str]:
    return [message.content for message in episode.messages if message.role == "user"]


def test_both_styles_are_one_world() -> None:
    full, card = many(25, style="full", difficulty="hard"), many(25, difficulty="hard")

    def played(episode: Episode) -> tuple[object, ...]:
        return episode.outcome, [[(call.name, call.arguments) for call in turn.calls] for turn in episode.turns]

    assert [played(one) for one in full] == [played(one) for one in card]


def test_every_card_has_all_that_the_next_call_needs() -> None:
    played = many(40, CardTeacher(), difficulty="hard", faults=1.0)

    for episode in played:
        shown = cards(episode)
        assert len(shown) == len(episode.turns)
        assert all("\nday " in card and len(card) < 1200 for card in shown)
        # Whatever isn't done yet is still on the card.
        assert all("to do: " in card or "done: " in card for card in shown)
    texts = "\n".join(card for episode in played for card in cards(episode))
    for what in (
        "failed: no answer",
        "has just been taken",
        "a mail to",
        "inbox: guest@",
        "told: guest",
        "in the calendar",
    ):
        assert what in texts


def test_only_what_the_user_says_is_told_as_theirs() -> None:
    def asks(moment: Moment) -> Iterable[Intervention]:
        return [Intervention("ask", {"question": "Which?"} if not moment.of("reply") else {"question": ""})]

    episode = many(1, ScriptedPolicy(rule=asks), turns=2)[0]

    theirs = [event.data for event in episode.events if event.kind == "observation" and event.data.get("by") == "user"]
    assert theirs[0]["said"] == "You know me, choose what you think is right."
    assert f"reply: {theirs[0]['said']}" in cards(episode)[1]


def test_the_teacher_plays_scenarios_of_ones_own(tmp_path: Path) -> None:
    questions = {"size": {"small": ["very small", "tiny", "little"], "large": ["large", "big", "huge"]}}
    own = {"calls": ["cup_search", "cup_take"], "dated": False, "noun": "tea cups", "names": ['The "Blue" <Cup>']}
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({"tea": {**own, "requests": ["Tea.", "A tea."], "questions": questions}}), "utf-8")

    teacher = CardTeacher(CardTeacherSettings(domains=str(file)))
    played = many(20, teacher, domains=str(file), stated=1.0, faults=0.5)

    assert {episode.outcome["procedure"] for episode in played} == {5.0}
    assert fmean(episode.outcome["visible_personal"] for episode in played) > 4.5
    with pytest.raises(SettingsError, match="the scenario tea"):
        many(1, CardTeacher(), domains=str(file))
