"""Copies of ETAPP: damage is named with file and line, and ETAPP-Hard comes out with the same bytes after a kill."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentfw import Moment
from agentfw.errors import RunFolderError, SettingsError
from agentfw_cli.plugins import data
from agentfw_papers.worlds.etapp.copy_of_etapp import load_copy
from agentfw_papers.worlds.etapp.environment import Etapp
from agentfw_papers.worlds.etapp.etapp_settings import EtappSettings
from agentfw_papers.worlds.etapp.hard import PolicyWriter, brief_of, make_hard, write_by_template
from agentfw_plugins.policies.scripted import ScriptedPolicy

from ..playing import play
from .copies import write_copy

Damage = Callable[[Path], object]

ASKED, PROFILES, CALENDAR = "data/instruction/instruction.json", "profile/profiles.json", "toolkit/Calendar/config.json"
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


def cut(folder: Path) -> None:
    content = (folder / ASKED).read_bytes()
    (folder / ASKED).write_bytes(content[: len(content) // 2])


def mark_and_spoil(folder: Path) -> None:
    content = (folder / EVENTS).read_bytes()
    (folder / EVENTS).write_bytes(b"\xef\xbb\xbf" + content.replace(b"2024-09-07 12:00:00", b"noon"))


def pickled(folder: Path) -> None:
    (folder / WEATHER).rename(folder / "database/Weather/weather_new.pkl")


DAMAGE: dict[str, tuple[Damage, str]] = {
    "no instructions": (remove(ASKED), "instruction.json: there is no such file"),
    "instructions that are a pickle": (write(ASKED, b"\x80\x04N."), "instruction.json: is a pickle"),
    "instructions cut off": (cut, "isn't JSON from here on"),
    "a wrong time": (swap(ASKED, '"2024-09-0', '"2024-13-0'), "instruction.json:2: the instruction has no time"),
    "no query": (swap(ASKED, '"query"', '"question"'), "instruction.json:2: the instruction has no query"),
    "an unknown tool": (swap(ASKED, '"add_event_to_calendar"', '"fly"'), "names unknown tools: fly"),
    "empty keypoints": (
        swap(ASKED, '"keypoint for personal"', '"points"'),
        "instruction.json:2: no keypoints for pers",
    ),
    "no profiles": (remove(PROFILES), "profiles.json: there is no such file"),
    "profiles that aren't JSON": (swap(PROFILES, ":", "="), "profiles.json:2: isn't JSON"),
    "a person without tables": (remove("**/*_Bo_Berg.csv"), "events_Bo_Berg.csv: there is no such file"),
    "a name that leads out": (swap(PROFILES, '"Ana Aalto": {', '"../../Ana": {'), "can't be that of a file"),
    "no schemas": (remove("toolkit"), "toolkit: there is no folder"),
    "a schema without a name": (swap(CALENDAR, '"name"', '"called"'), "config.json:2: isn't the schema of a tool"),
    "a table without a column": (swap(EVENTS, "start_time", "begins"), "Aalto.csv:1: has no column start_time"),
    "a byte order mark": (mark_and_spoil, "events_Ana_Aalto.csv:3: has the start_time 'noon', which is no time"),
    "a table in Latin-1": (swap(EMAILS, "invoice 1", b"caf\xe9"), "emails_Ana_Aalto.csv:3: isn't UTF-8"),
    "ids twice": (swap(EVENTS, "\r\n1,", "\r\n0,"), "events_Ana_Aalto.csv:3: has the id '0' twice"),
    "a row that is too short": (swap(EMAILS, ",no,", ","), "emails_Ana_Aalto.csv:2: has 8 values in 9 columns"),
    "a quote that never ends": (swap(EMAILS, "the blue bicycle", '"the blue'), "emails_Ana_Aalto.csv:"),
    "weather as a pickle": (pickled, "weather_new.pkl: is a pickle, which isn't read"),
    "news that are too deep": (write(NEWS, b"[" * 100_000), "news.json: can't be read as JSON"),
}


@pytest.mark.slow
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
        assert play(env, ScriptedPolicy(rule=env.demonstrate), task).outcome["answered"] == 1


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


@pytest.mark.slow
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
    rows = [json.loads(line) for line in (whole / "train.jsonl").read_text("utf-8").splitlines()]
    assert set(rows[0]) == {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    shared = {row["extra_info"]["instruction"] for row in rows} & {
        json.loads(line)["extra_info"]["instruction"] for line in (whole / "test.jsonl").read_text("utf-8").splitlines()
    }
    assert shared == set()


def test_hard_instructions_need_three_to_five_kinds_of_tools_and_can_be_played(
    copy_folder: Path, tmp_path: Path
) -> None:
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
        query = (
            "Please arrange my evening." if number in (2, 3) else f"{brief.person}: {', '.join(brief.tools)}, at once"
        )
        return [said.get(number, json.dumps({"query": query, "personal": ["a"], "proactive": ["b"]}))]

    counts = asyncio.run(
        make_hard(load_copy(str(copy_folder)), tmp_path, PolicyWriter(ScriptedPolicy(rule=rule)), name="one", count=10)
    )

    assert counts["instructions"] == 10
    unused = counts["not_used"]
    assert unused["the answer holds no request"] == 1
    assert unused["the request has not 20 to 2000 characters"] == 1
    assert unused["nearly one that is there"] >= 1
    with pytest.raises(RunFolderError, match="was begun with another"):
        asyncio.run(make_hard(load_copy(str(copy_folder)), tmp_path, write_by_template, name="two", count=10))
