"""What a person reads in a session on a terminal."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from agentfw_calendar.deciding.person_file import PersonFile
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.session import Session, Wishes
from agentfw_calendar.terminal import Terminal
from agentfw_plugins.worlds.calendar.policies import LinearPolicy

LEAVE = "UID:leave\nDTSTART;VALUE=DATE:20991105\nDTEND;VALUE=DATE:20991107\nSUMMARY:Annual leave"
BOARD = "UID:board\nDTSTART;TZID=Europe/Berlin:20991106T100000\nDURATION:PT1H\nSUMMARY:Board meeting"
LUNCH = "UID:lunch\nDTSTART;TZID=Europe/Berlin:20991109T120000\nDURATION:PT1H\nSUMMARY:Lunch"
CALL = "UID:call\nDTSTART;TZID=Europe/Berlin:20991109T123000\nDURATION:PT1H\nSUMMARY:Call"


class Typing(Console):
    """A console at which somebody types these lines."""

    def __init__(self, *lines: str) -> None:
        super().__init__(file=io.StringIO(), width=120)
        self.lines = list(lines)

    def input(self, prompt: object = "", **options: object) -> str:
        self.print(prompt, end="")
        self.print(self.lines[0])
        return self.lines.pop(0)

    @property
    def text(self) -> str:
        assert isinstance(self.file, io.StringIO)
        return self.file.getvalue()


def session(path: Path, folder: Path, *lines: str, language: str = "") -> str:
    console = Typing(*lines)
    found = Session.open([FileSource(path)], Wishes(since=date(2099, 11, 2), language=language))
    with PersonFile(folder / "hub.db", "ana@lab.example") as known:
        asyncio.run(found.play(LinearPolicy(), Terminal(found.home, found.texts, console), known))
    return console.text


def test_the_day_is_that_of_the_clash_and_other_days_are_named(ics_file: Callable[..., Path], tmp_path: Path) -> None:
    text = session(ics_file(LEAVE, BOARD), tmp_path, "q")

    assert "1 of 1   Fri 6 November 2099" in text
    assert "A  Thu 5 November to Fri 6 November  Annual leave" in text
    assert "B  10:00 - 11:00 " in text


def test_a_reason_alone_is_told_where_it_belongs(ics_file: Callable[..., Path], tmp_path: Path) -> None:
    text = session(ics_file(LUNCH, CALL), tmp_path, "Familie geht vor", "q")

    assert 'a reason goes behind the letter: "A: Familie geht vor"' in text


def test_what_is_taken_back_is_told(ics_file: Callable[..., Path], tmp_path: Path) -> None:
    text = session(ics_file(LEAVE, BOARD, LUNCH, CALL), tmp_path, "a", "u", "q")

    assert "your previous answer is taken back\n\n1 of 2" in text


@pytest.mark.slow
def test_the_address_of_the_page_is_told_at_once_also_in_a_pipe(ics_file: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    words = ["calendar", "serve", str(ics_file(LUNCH, CALL)), "--hub", str(tmp_path / "hub.db"), "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "agentfw_cli.main", *words], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("http://127.0.0.1:")
        finally:
            process.kill()
