"""Tutoring in the kitchen: what was said stays said, any policy explains, any file of exercises will do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from agentfw.agent import Agent, Decision
from agentfw.episode import Episode, Intervention, Task
from agentfw.errors import AgentfwError, SettingsError
from agentfw.policy import Generation, Policy, Request
from agentfw.request import Moment
from agentfw.turns.engagement import Engagement
from agentfw_papers.worlds.kitchen.environment import Kitchen
from agentfw_papers.worlds.kitchen.kitchen_settings import KitchenSettings
from agentfw_papers.worlds.kitchen.tutoring_problems import pieces_of
from agentfw_plugins.policies.scripted import ScriptedPolicy, ScriptedSettings


class Teaching(Agent):
    """Has the tutor explain, in stretches of so many tokens."""

    def __init__(self, *stretches: int | None) -> None:
        self.stretches = list(stretches)

    async def act(self, moment: Moment) -> Decision:
        if not self.stretches:
            return Decision([Intervention("end")])
        tokens = self.stretches.pop(0)
        return Decision([Intervention("tutor", {} if tokens is None else {"tokens": tokens})])


def play(agent: Agent, policy: Policy | None = None, **settings: Any) -> Episode:
    kitchen = Kitchen(KitchenSettings.model_validate({"variant": "one", "lesson": "short", **settings}), tutor=policy)
    return asyncio.run(Engagement(kitchen, agent).run(Task(0, seed=5)))


def said(episode: Episode) -> list[str]:
    return [turn.text for turn in episode.turns if turn.seat == "tutor"]


def written(**settings: Any) -> str:
    """What would be said without a break."""
    (whole,) = said(play(Teaching(None), **settings))
    return whole


def test_an_explanation_in_stretches_is_the_explanation_word_for_word() -> None:
    whole = play(Teaching(None))
    broken = play(Teaching(7, 40, None))
    assert "".join(said(broken)) == "".join(said(whole))
    assert [len(pieces_of(text)) for text in said(broken)[:2]] == [7, 40]
    assert broken.ended == whole.ended == len(pieces_of(said(whole)[0]))
    figures = {name: broken.outcome[name] for name in ("stretches", "interrupted", "resumed", "restarted", "problems")}
    assert figures == {"stretches": 3, "interrupted": 2, "resumed": 2, "restarted": 0, "problems": 1}


def test_the_tutor_is_shown_what_was_said_and_nothing_of_the_kitchen() -> None:
    asked: list[str] = []

    class Listening(Policy):
        async def generate(self, request: Request) -> Generation:
            asked.append("\n".join(message.content for message in request.messages))
            words = [f" w{number}" for number in range(request.sampling.max_tokens or 0)]
            return Generation("".join(words), count=len(words), pieces=tuple(words))

    episode = play(Teaching(25, None), Listening())
    assert episode.outcome["problems"] == 1
    assert "w24" in asked[1]
    assert "w25" not in asked[1]
    assert not any(word in text for text in asked for word in ("kitchen", "dish", "stove", "<tutor"))


def test_a_tutor_that_says_too_much_is_cut_where_the_problem_ends() -> None:
    length = len(pieces_of(written()))
    endless = ScriptedPolicy(ScriptedSettings(replies=("on and on " * 500,)))
    episode = play(Teaching(None), endless)
    assert episode.ended == length
    assert [turn.finish for turn in episode.turns if turn.seat == "tutor"] == ["length"]


def test_a_tutor_is_named_in_the_settings() -> None:
    episode = play(Teaching(None), tutor="scripted", tutor_settings={"replies": ["It is twelve."]})
    assert said(episode) == ["It is twelve."]
    with pytest.raises(AgentfwError, match="skripted"):
        play(Teaching(None), tutor="skripted")
    with pytest.raises(SettingsError, match=r"environment\.tutor_settings\.replys"):
        play(Teaching(None), tutor="scripted", tutor_settings={"replys": ["x"]})


def exercises(folder: Path, lines: Iterable[str]) -> str:
    file = folder / "exercises.jsonl"
    file.write_text("\n".join(lines), "utf-8")
    return str(file)


def test_problems_are_made_of_any_file_of_questions_and_answers(tmp_path: Path) -> None:
    answer = "He has 4 + 5 = <<4+5=9>>9 apples, and he eats one of them on the way to school.\n#### 8"
    lines = [json.dumps({"question": f"How many, case {number}?", "answer": answer}) for number in range(40)]
    text = written(exercises=exercises(tmp_path, lines))
    assert text.startswith("He has 4 + 5 = 9 apples")
    assert "The answer is 8." in text
    assert "<<" not in text


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['{"question": "?"}'], "line 1"),
        (["{"], "line 1"),
        ([], "is empty"),
        (['{"question": "?", "answer": "8"}'], "no sheet of 90 to 150"),
    ],
)
def test_exercises_that_will_not_do_are_told(tmp_path: Path, lines: list[str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        play(Teaching(None), exercises=exercises(tmp_path, lines))
    with pytest.raises(SettingsError, match="can't read"):
        play(Teaching(None), exercises=str(tmp_path / "nowhere"))
