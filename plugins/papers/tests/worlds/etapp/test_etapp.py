"""ETAPP from a folder of the published form: everything can be played, calls change what they say, damage is named."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentfw import Episode, Host, Intervention, Moment, Observation, Task
from agentfw.errors import AgentfwError
from agentfw.testing import contract, made_by
from agentfw.testing.checks import run_check, sample_episodes
from agentfw_cli.plugins import data
from agentfw_papers.rewards.keypoints import Keypoints, KeypointsSettings
from agentfw_papers.worlds.etapp.environment import Etapp
from agentfw_papers.worlds.etapp.etapp_settings import EtappSettings
from agentfw_plugins.policies.scripted import ScriptedPolicy

from ..playing import play as play_in
from .copies import TOOLS

ARGUMENTS = {
    "title": "Blue",
    "start_time": "2024-09-08 20:00:00",
    "end_time": "2024-09-08 21:00:00",
    "id": "1",
    "alarm_time": "2024-09-07 06:30:00",
    "receiver": "Eva",
    "subject": "hello",
    "content": "a word",
    "sender": "Eva",
    "query": "blue bicycle comet",
    "city": "Lakeside",
    "destination": "Lakeside",
    "product_title": "Lamp",
    "category": "science",
    "brightness": 30,
}


def arguments_of(tool: str) -> dict[str, Any]:
    given = next(tools[tool] for tools in TOOLS.values() if tool in tools)
    found = {name.rstrip("*"): ARGUMENTS[name.rstrip("*")] for name in given if name.endswith("*")}
    return found | ({"alarm_time": "2024-09-10 05:00:00"} if tool == "add_alarm" else {})


class Caller:
    """Makes the given calls in one turn, then answers."""

    def __init__(self, *calls: Intervention) -> None:
        self.calls = calls
        self.heard: list[Observation] = []

    def __call__(self, moment: Moment) -> Iterable[Intervention | str]:
        self.heard += moment.observations
        if moment.of("request"):
            yield from self.calls
        else:
            yield "All is done."

    def answers(self) -> list[Any]:
        return [json.loads(one.text) for one in self.heard if one.name == "answer"]

    def refusals(self) -> list[str]:
        return [str(one.data["reason"]) for one in self.heard if one.name == "refused"]


def play(env: Etapp, task: Task, rule: Any) -> Episode:
    return play_in(env, ScriptedPolicy(rule=rule), task)


def use(folder: Path, *calls: tuple[str, dict[str, Any]], **settings: Any) -> tuple[Caller, Episode, Etapp]:
    """Play a task in which every tool is offered."""
    env = Etapp(EtappSettings(folder=str(folder), **settings))
    everything = tuple(env.copy.schemas)
    env.copy = replace(env.copy, instructions=tuple(replace(one, tools=everything) for one in env.copy.instructions))
    caller = Caller(*(Intervention(name, arguments) for name, arguments in calls))
    return caller, play(env, env.tasks(1, 7, "test")[0], caller), env


@pytest.mark.slow
def test_all_tasks_begin_and_end_and_all_tools_are_called(copy_folder: Path) -> None:
    env = Etapp(EtappSettings(folder=str(copy_folder)))
    counts = {"train": 640, "validation": 80, "test": 80}
    tasks = [task for split, count in counts.items() for task in env.tasks(count, 7, split)]
    used: Counter[str] = Counter()

    for task in tasks:
        asked = next(one for one in env.copy.instructions if task.query == f"instruction {one.number}")
        caller = Caller(*(Intervention(name, arguments_of(name)) for name in asked.tools))
        episode = play(env, task, caller)
        used.update(one.data["tool"] for one in caller.heard if one.name == "answer")
        assert (episode.finish, episode.outcome["answered"]) == ("finished", 1)
        assert episode.outcome["refused"] + episode.outcome["tool_calls_done"] == len(asked.tools)

    assert len({(task.user, task.query) for task in tasks}) == 800
    assert len(used) == 33
    assert {name for tools in TOOLS.values() for name in tools} == set(used)


def test_what_a_call_changes_stays_changed_and_only_for_the_episode(copy_folder: Path) -> None:
    event = {"title": "tea", "start_time": "2024-09-08 20:00:00", "end_time": "2024-09-08 21:00:00"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("add_event_to_calendar", event),
        ("add_event_to_calendar", event),
        ("find_events_between", {"start_time": "2024-09-08 19:00:00", "end_time": "2024-09-08 22:00:00"}),
        ("add_product_to_cart", {"product_title": "Green kettle", "quantity": 2}),
        ("view_cart", {}),
        ("remove_product_from_cart", {"product_title": "Lamp"}),
        ("view_cart", {}),
        ("send_email", {"receiver": "Eva", "content": "on my way"}),
        ("search_email_by_content", {"query": "on my way"}),
        ("control_light_in_home", {"brightness": 30}),
        ("get_home_devices", {}),
        ("play_music", {"title": "red rain"}),
    ]

    caller, episode, _ = use(copy_folder, *calls)
    again, _, _ = use(copy_folder, ("view_cart", {}), ("find_events_between", calls[2][1]))

    answers = caller.answers()
    assert ["already" in reason for reason in caller.refusals()] == [True]
    assert [row["title"] for row in answers[1]["rows"]] == ["tea"]
    assert [row["product_title"] for row in answers[3]["rows"]] == ["Lamp", "Green kettle"]
    assert answers[3]["rows"][1]["quantity"] == "2"
    assert [row["product_title"] for row in answers[5]["rows"]] == ["Green kettle"]
    assert answers[7]["rows"][0]["receiver"] == "Eva"
    assert answers[9]["devices"] == {"light": {"brightness": 30}}
    assert answers[10]["done"] == "playing Red Rain"
    assert episode.outcome["effects"] == 6
    assert [answer["count"] for answer in again.answers()] == [1, 0]


def test_calls_that_cannot_be_are_refused_in_words(copy_folder: Path) -> None:
    backwards = {"title": "x", "start_time": "2024-09-08 09:00:00", "end_time": "2024-09-08 08:00:00"}
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("fly_away", {}, "no tool"),
        ("view_cart", {"colour": "red"}, "no argument colour"),
        ("add_alarm", {}, "needs the argument"),
        ("add_alarm", {"alarm_time": "soon"}, "must be a time"),
        ("control_light_in_home", {"brightness": "bright"}, "of type integer"),
        ("delete_event", {"id": "77"}, "nothing in events"),
        ("add_product_to_cart", {"product_title": "a yacht"}, ""),
        ("send_email", {"receiver": " ", "content": "x"}, ""),
        ("add_event_to_calendar", backwards, ""),
    ]

    caller, _, _ = use(copy_folder, *((tool, arguments) for tool, arguments, _ in cases))

    assert all(words in reason for (_, _, words), reason in zip(cases, caller.refusals(), strict=True))


def test_the_splits_share_no_instruction_or_no_instance(copy_folder: Path) -> None:
    by_instruction = Etapp(EtappSettings(folder=str(copy_folder)))
    by_instance = Etapp(EtappSettings(folder=str(copy_folder), part="instance"))

    asked = [{task.query for task in by_instruction.tasks(640, 7, split)} for split in ("train", "test")]
    pairs = [{(one.user, one.query) for one in by_instance.tasks(640, 7, split)} for split in ("train", "test")]
    assert [len(some) for some in asked] == [40, 5]
    assert not asked[0] & asked[1]
    assert [len(some) for some in pairs] == [640, 80]
    assert not pairs[0] & pairs[1]


def test_a_judge_sees_the_keypoints_and_marks_by_what_the_tools_answered(copy_folder: Path) -> None:
    env = Etapp(EtappSettings(folder=str(copy_folder)))
    judge = Keypoints(
        KeypointsSettings.model_validate({"policy": {"name": "scripted", "settings": {"rule": f"{__name__}:marked"}}}),
        host=Host.load(),
    )
    episode = play(env, env.tasks(1, 7, "test")[0], Caller())

    scores = {score.component: score for score in asyncio.run(judge.score([episode]))}

    assert [scores[f"keypoints_{head}"].value for head in ("procedure", "personal", "proactive")] == [0.4, 0.8, 1.0]
    assert scores["keypoints_failed"].value == 0


def marked(moment: Moment) -> list[str]:
    """A judge who insists on seeing one personal and two proactive points, and the profile."""
    text = moment.observations[0].text
    assert "keeps to the habits" in text and "thinks of what follows" in text and "way of" in text  # noqa: PT018
    return ['{"points": [2, 2, 1], "marks": {"procedure": 2, "personal": 4, "proactive": 5}}']


def test_a_copy_without_damage_has_no_gaps_and_a_folder_that_is_none_says_what_to_do(
    copy_folder: Path, tmp_path: Path
) -> None:
    shown = CliRunner().invoke(data, ["check", "etapp", str(copy_folder), "--json"])

    facts = json.loads(shown.stdout)
    assert facts["gaps"] == []
    assert facts["counts"] == {"persons": 16, "instructions": 50, "tasks": 800, "tools": 33, "sections": 9, "gaps": 0}
    assert facts["rows"]["events"] == 64
    for folder in ("", str(tmp_path / "nowhere"), str(tmp_path)):
        with pytest.raises(AgentfwError, match=r"environment.folder|no usable"):
            Etapp(EtappSettings(folder=folder))


@pytest.mark.slow
@pytest.mark.parametrize("tools", ["given", "retrieved"])
def test_it_keeps_the_promises_of_an_environment(copy_folder: Path, tools: str) -> None:
    host = Host.load()
    make = made_by(host, "environment", "etapp", {"folder": str(copy_folder), "tools": tools})

    for check in contract("environment"):
        result = run_check(check, make, episodes=sample_episodes(), time_limit=60)
        assert result.passed or result.skipped, f"{result.promise}: {result.detail}"
