"""Damage to a copy of ETAPP is named with its file and line, and what is left can be played."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentfw import Engagement, PolicyAgent
from agentfw.errors import SettingsError
from agentfw_cli.data import data
from agentfw_papers.worlds.etapp.copy_of_etapp import load_copy
from agentfw_papers.worlds.etapp.environment import Etapp
from agentfw_papers.worlds.etapp.etapp_settings import EtappSettings
from agentfw_plugins.policies.scripted import ScriptedPolicy

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
    def damage(folder: Path) -> None:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)

    return damage


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
        episode = asyncio.run(Engagement(env, PolicyAgent(ScriptedPolicy(rule=env.demonstrate))).run(task))
        assert episode.outcome["answered"] == 1
