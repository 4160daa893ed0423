"""ETAPP from a folder of the published form: everything can be played, calls change what they say, damage is named.

ETAPP-Hard is made of it, and comes out with the same bytes after a kill.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentfw import Episode, Host, Intervention, Moment, Observation, Task
from agentfw.errors import AgentfwError, RunFolderError, SettingsError
from agentfw.testing import check_component, made_by
from agentfw_cli.plugins import data
from agentfw_papers.rewards.keypoints import Keypoints, KeypointsSettings
from agentfw_papers.worlds.etapp.copy_of_etapp import load_copy
from agentfw_papers.worlds.etapp.environment import Etapp
from agentfw_papers.worlds.etapp.etapp_settings import EtappSettings
from agentfw_papers.worlds.etapp.hard import PolicyWriter, brief_of, make_hard, write_by_template
from agentfw_plugins.policies.scripted import ScriptedPolicy

from ..playing import play as play_in
from .copies import TOOLS, write_copy

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


@pytest.fixture(scope="module")
def copy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder in the form of ETAPP, for all tests that only read it."""
    return write_copy(tmp_path_factory.mktemp("etapp"))


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


def test_tasks_of_all_splits_begin_and_end_and_all_tools_are_called(copy_folder: Path) -> None:
    env = Etapp(EtappSettings(folder=str(copy_folder)))
    counts = {"train": 640, "validation": 80, "test": 80}
    tasks = [task for split, count in counts.items() for task in env.tasks(count, 7, split)]
    used: Counter[str] = Counter()

    for task in tasks[::4]:
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
    day = {"start_time": "2024-09-07", "end_time": "2024-09-07"}
    again, _, _ = use(copy_folder, *((name, given) for name, given in (calls[4], calls[2], (calls[2][0], day))))

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
    assert [answer["count"] for answer in again.answers()] == [1, 0, 1], "a day has its events to the end"


def test_calls_that_cannot_be_are_refused_in_words(copy_folder: Path) -> None:
    backwards = {"title": "x", "start_time": "2024-09-08 09:00:00", "end_time": "2024-09-08 08:00:00"}
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("fly_away", {}, "no tool"),
        ("view_cart", {"colour": "red"}, "no argument colour"),
        ("add_alarm", {"alarm_time": "soon"}, "must be a time"),
        ("control_light_in_home", {"brightness": "bright"}, "of type integer"),
        ("delete_event", {"id": "77"}, "nothing in events"),
        ("add_product_to_cart", {"product_title": "a yacht"}, ""),
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
    policy = {"name": "scripted", "settings": {"rule": f"{__name__}:marked"}}
    judge = Keypoints(KeypointsSettings.model_validate({"policy": policy}), host=Host.load())
    episode = play(env, env.tasks(1, 7, "test")[0], Caller())

    scores = {score.component: score for score in asyncio.run(judge.score([episode]))}

    assert [scores[f"keypoints_{head}"].value for head in ("procedure", "personal", "proactive")] == [0.4, 0.8, 1.0]
    assert scores["keypoints_failed"].value == 0


def marked(moment: Moment) -> list[str]:
    """A judge who insists on seeing one personal and two proactive points, and the profile."""
    text = moment.observations[0].text
    assert "keeps to the habits" in text and "thinks of what follows" in text and "way of" in text  # noqa: PT018
    return ['{"points": [2, 2, 1], "marks": {"procedure": 2, "personal": 4, "proactive": 5}}']


def test_no_character_of_a_text_ends_its_row(tmp_path: Path) -> None:
    folder = write_copy(tmp_path, persons=6, instructions=12)
    swap(EMAILS, "invoice 1", b"invoice\x85 1")(folder)

    facts = json.loads(CliRunner().invoke(data, ["check", "etapp", str(folder), "--json"]).stdout)

    assert [gap for gap in facts["gaps"] if "left out" in gap] == []


def test_a_whole_copy_has_no_gaps_and_a_folder_that_is_none_says_what_to_do(copy_folder: Path, tmp_path: Path) -> None:
    shown = CliRunner().invoke(data, ["check", "etapp", str(copy_folder), "--json"])

    facts = json.loads(shown.stdout)
    assert facts["gaps"] == []
    assert facts["counts"] == {"persons": 16, "instructions": 50, "tasks": 800, "tools": 33, "sections": 9, "gaps": 0}
    assert facts["rows"]["events"] == 64
    for folder in ("", str(tmp_path / "nowhere"), str(tmp_path)):
        with pytest.raises(AgentfwError, match=r"environment.folder|no usable"):
            Etapp(EtappSettings(folder=folder))


@pytest.mark.parametrize("tools", ["given", "retrieved"])
def test_it_keeps_the_promises_of_an_environment(copy_folder: Path, tools: str) -> None:
    make = made_by(Host.load(), "environment", "etapp", {"folder": str(copy_folder), "tools": tools})

    results = check_component("environment", make, time_limit=60)
    assert [(one.promise, one.detail) for one in results if not one.passed and not one.skipped] == []


# -- damage is named with file and line --------------------------------------------------------------------------------

Damage = Callable[[Path], object]

ASKED, PROFILES = "data/instruction/instruction.json", "profile/profiles.json"
EVENTS, EMAILS = "database/Calendar/events/events_Ana_Aalto.csv", "database/Email/emails_Ana_Aalto.csv"
NEWS = "database/Web_Browsing/news.json"
WEATHER = "database/Weather/weather.json"


def swap(file: str, old: str, new: str | bytes) -> Damage:
    """Put one text in the place of another, once."""
    after = new.encode() if isinstance(new, str) else new

    def damage(folder: Path) -> None:
        before = (folder / file).read_bytes()
        assert old.encode() in before
        (folder / file).write_bytes(before.replace(old.encode(), after, 1))

    return damage


def write(file: str, content: bytes) -> Damage:
    return lambda folder: (folder / file).write_bytes(content)


def remove(pattern: str) -> Damage:
    def damage(folder: Path) -> None:
        for path in sorted(folder.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def mark_and_spoil(folder: Path) -> None:
    content = (folder / EVENTS).read_bytes()
    (folder / EVENTS).write_bytes(b"\xef\xbb\xbf" + content.replace(b"2024-09-07 12:00:00", b"noon"))


def pickled(folder: Path) -> None:
    (folder / WEATHER).rename(folder / "database/Weather/weather_new.pkl")


DAMAGE: dict[str, tuple[Damage, str]] = {
    "no instructions": (remove(ASKED), "instruction.json: there is no such file"),
    "instructions that are a pickle": (write(ASKED, b"\x80\x04N."), "instruction.json: is a pickle"),
    "a wrong time": (swap(ASKED, '"2024-09-0', '"2024-13-0'), "instruction.json:2: the instruction has no time"),
    "an unknown tool": (swap(ASKED, '"add_event_to_calendar"', '"fly"'), "names unknown tools: fly"),
    "profiles that aren't JSON": (swap(PROFILES, ":", "="), "profiles.json:2: isn't JSON"),
    "a person without tables": (remove("**/*_Bo_Berg.csv"), "events_Bo_Berg.csv: there is no such file"),
    "a name that leads out": (swap(PROFILES, '"Ana Aalto": {', '"../../Ana": {'), "can't be that of a file"),
    "no schemas": (remove("toolkit"), "toolkit: there is no folder"),
    "a table without a column": (swap(EVENTS, "start_time", "begins"), "Aalto.csv:1: has no column start_time"),
    "a byte order mark": (mark_and_spoil, "events_Ana_Aalto.csv:3: has the start_time 'noon', which is no time"),
    "a table in Latin-1": (swap(EMAILS, "invoice 1", b"caf\xe9"), "emails_Ana_Aalto.csv:3: isn't UTF-8"),
    "ids twice": (swap(EVENTS, "\r\n1,", "\r\n0,"), "events_Ana_Aalto.csv:3: has the id '0' twice"),
    "a row that is too short": (swap(EMAILS, ",no,", ","), "emails_Ana_Aalto.csv:2: has 8 values in 9 columns"),
    "a quote that never ends": (swap(EMAILS, "the blue bicycle", '"the blue'), "emails_Ana_Aalto.csv:"),
    "weather as a pickle": (pickled, "weather_new.pkl: is a pickle, which isn't read"),
    "news that are too deep": (write(NEWS, b"[" * 100_000), "news.json: can't be read as JSON"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_and_what_is_left_can_be_played(kind: str, tmp_path: Path) -> None:
    damage, says = DAMAGE[kind]
    folder = write_copy(tmp_path / "copy", persons=6, instructions=12)
    damage(folder)
    load_copy.cache_clear()

    shown = CliRunner().invoke(data, ["check", "etapp", str(folder), "--json"])

    if shown.exit_code:
        assert isinstance(shown.exception, SettingsError), shown.exception
        assert says in str(shown.exception)
        return
    facts = json.loads(shown.stdout)
    assert any(says in gap for gap in facts["gaps"]), facts["gaps"]
    env = Etapp(EtappSettings(folder=str(folder)))
    for task in env.tasks(6, 7, "test"):
        assert play(env, task, env.demonstrate).outcome["answered"] == 1


# -- ETAPP-Hard --------------------------------------------------------------------------------------------------------


KILLED = """
import os, signal, sys
from click.testing import CliRunner
from agentfw_cli.plugins import data
from agentfw_papers.worlds.etapp import hard

def append(journal, record, appended=hard._append, count=[]):
    appended(journal, record)
    count.append(1)
    if len(count) == 30:
        with journal.open("ab") as file:
            file.write(b'{"attempt": 30, "que')
        os.kill(os.getpid(), signal.SIGKILL)

hard._append = append
CliRunner().invoke(data, ["make", "etapp-hard", sys.argv[1], "--out", sys.argv[2], "--count", "60"])
"""


def make(*arguments: object) -> dict[str, object]:
    done = CliRunner().invoke(data, ["make", "etapp-hard", *map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_instructions_become_rows_and_the_same_ones_after_a_kill(copy_folder: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    made = make(copy_folder, "--out", whole, "--count", 60)
    stopped = subprocess.run([sys.executable, "-c", KILLED, str(copy_folder), str(killed)])
    resumed = make(copy_folder, "--out", killed, "--count", 60)

    assert made["instructions"] == 60
    assert made["rows"] == {"train": 864, "test": 96}
    assert stopped.returncode == -signal.SIGKILL
    assert resumed == made
    for name in ("instruction.json", "train.jsonl", "test.jsonl", "attempts.jsonl"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    files = [(whole / f"{name}.jsonl").read_text("utf-8").splitlines() for name in ("train", "test")]
    rows, test = ([json.loads(line) for line in lines] for lines in files)
    assert set(rows[0]) == {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    asked_in = [{row["extra_info"]["instruction"] for row in some} for some in (rows, test)]
    assert not asked_in[0] & asked_in[1]


def test_hard_instructions_need_three_to_five_kinds_of_tools_and_are_played(copy_folder: Path, tmp_path: Path) -> None:
    make(copy_folder, "--out", tmp_path, "--count", 20, "--part", "instance")

    env = Etapp(EtappSettings(folder=str(copy_folder), instructions=str(tmp_path / "instruction.json")))

    assert len(env.copy.instructions) == 20
    assert {len(one.sections) for one in env.copy.instructions} == {3, 4, 5}
    assert len(env.tasks(16 * 16, 7, "train")) == 256


def test_a_policy_writes_and_what_cannot_be_used_is_counted_and_drawn_anew(copy_folder: Path, tmp_path: Path) -> None:
    def rule(moment: Moment) -> list[str]:
        number = moment.observations[0].data["attempt"]
        said = {0: "No.", 1: '{"query": "short", "personal": ["a"], "proactive": ["b"]}'}
        brief = brief_of(load_copy(str(copy_folder)), number)
        own = f"{brief.person}: {', '.join(brief.tools)}, at once \ud83d"
        query = "Please arrange my evening." if number in (2, 3) else own
        return [said.get(number, json.dumps({"query": query, "personal": ["a"], "proactive": ["b"]}))]

    writer = PolicyWriter(ScriptedPolicy(rule=rule))
    counts = asyncio.run(make_hard(load_copy(str(copy_folder)), tmp_path, writer, name="one", count=10))

    assert counts["instructions"] == 10
    unused = counts["not_used"]
    assert unused["the answer holds no request"] == 1
    assert unused["the request has not 20 to 2000 characters"] == 1
    assert unused["nearly one that is there"] >= 1
    with pytest.raises(RunFolderError, match="was begun with another"):
        asyncio.run(make_hard(load_copy(str(copy_folder)), tmp_path, write_by_template, name="two", count=10))
