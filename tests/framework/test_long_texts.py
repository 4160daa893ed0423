"""A tool's answer of a megabyte is kept once, and the agent is shown its beginning."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from offering import offering

from agentfw.environment import Environment, World
from agentfw.episode import Intervention, Task
from agentfw.policy import Policy
from agentfw.request import Generation, Request
from agentfw.runs.records import journal as long_texts
from agentfw.runs.records.journal import LongTexts
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw.testing import fresh_host
from agentfw.tool import tool

LONG = "0123456789" * 100_000


class Library(Environment):
    """Look something up, three times."""

    def begin(self, world: World, task: Task) -> None:
        for time in range(3):
            world.after(time, lambda: world.observe("question"))
        world.after(10, world.finish)


class Reading(Policy):
    longest = 0

    async def generate(self, request: Request) -> Generation:
        Reading.longest = max(Reading.longest, *(len(message.content) for message in request.messages))
        asked = any(each.name == "question" for each in request.moment.observations) if request.moment else False
        return Generation("", calls=(Intervention("look_up", {"title": "atlas"}),) if asked else ())


def make_tool() -> object:
    @tool
    def look_up(title: str) -> str:
        """The whole text of a book."""
        return LONG

    return look_up


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.parent.name != "package")


@pytest.mark.slow
def test_a_long_answer_is_kept_once_and_shown_in_part(tmp_path: Path) -> None:
    plugin = offering(environment={"library": Library}, policy={"reading": Reading}, tool={"look-up": make_tool})
    host = fresh_host(plugin)
    spec = parse_spec({"environment": "library", "policy": "reading", "tools": ["look-up"], "episodes": 4})
    run = Run.create(spec, host, tmp_path)

    asyncio.run(run.execute())

    (kept,) = run.folder.path.glob("long_texts/*.txt")
    assert kept.read_text("utf-8") == LONG
    assert Reading.longest < 101_000
    assert size(run.folder.path) < len(LONG) + 24 * 110_000
    (note,) = [note for note in host.notes if "gave a text" in note]
    assert 'tool "look-up"' in note
    assert "of 1,000,000 characters; the agent is shown the first 100,000" in note
    assert f"the whole is in long_texts/{kept.name}" in note
    record = json.loads((run.folder.path / "episodes.jsonl").read_text("utf-8").splitlines()[0])
    answers = [event[3]["text"] for event in record["events"] if event[1:3] == ["observation", "answer"]]
    assert answers[0].endswith(f"[shortened: 1,000,000 characters; the whole is in long_texts/{kept.name}]")


def test_there_is_an_end_to_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_texts, "_ROOM", 2500)
    texts, again = LongTexts(100), LongTexts(100)
    texts.open(tmp_path)

    shown = [texts.shortened(letter * 1000, "it") for letter in "abca"]

    again.open(tmp_path)
    shown.append(again.shortened("d" * 1000, "it"))
    for text, letter in zip(shown, "abcad", strict=True):
        assert text.startswith(letter * 100 + "\n[shortened: 1,000")
    assert ["the rest is not kept" in text for text in shown] == [False, False, True, False, True]
    assert shown[3] == shown[0]
    assert size(tmp_path) == 2000
