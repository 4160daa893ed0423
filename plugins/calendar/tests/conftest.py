"""Calendars to read, written on the spot, and the command.

`calendar_session` is the only place that knows how the command is started; `calendar` gives what it prints as JSON.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agentfw_cli.main import main


@pytest.fixture
def ics_file(tmp_path: Path) -> Callable[..., Path]:
    """Write an .ics of these events; each is the lines within BEGIN:VEVENT and END:VEVENT."""

    def write(*events: str, head: str = "X-WR-CALNAME:ana@lab.example", name: str = "my.ics") -> Path:
        lines = ["BEGIN:VCALENDAR", "VERSION:2.0", *filter(None, head.split("\n")), "X-WR-TIMEZONE:Europe/Berlin"]
        for event in events:
            lines += ["BEGIN:VEVENT", *event.strip().split("\n"), "END:VEVENT"]
        path = tmp_path / name
        path.write_bytes("\r\n".join([*lines, "END:VCALENDAR", ""]).encode())
        return path

    return write


class Said(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


CalendarSession = Callable[..., Said]


@pytest.fixture
def calendar_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CalendarSession:
    """Call `agentfw calendar WORD...` in a folder of its own, with a hub of its own and these answers on stdin."""
    monkeypatch.chdir(tmp_path)

    def call(
        command: str, *words: object, answers: str | None = None, typed: str = "", since: str = "2026-11-23"
    ) -> Said:
        line = ["calendar", command, "--hub", "hub.db"]
        if command in ("blocks", "decide", "list"):
            line += ["--from", since]
        if answers is not None:
            line += ["--answers", "-"]
        line += map(str, words)  # of an option that is given twice the last counts
        monkeypatch.setattr(sys, "stdin", io.StringIO(answers or typed))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(line)
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture
def calendar(calendar_session: CalendarSession) -> Callable[..., Any]:
    """What `agentfw calendar WORD... --json` prints, or its error where it ends with another code."""

    def call(command: str, *words: object, code: int = 0, answers: str | None = "", **more: str) -> Any:
        given = answers if command == "decide" else None
        said = calendar_session(command, *words, "--json", answers=given, **more)
        assert said.code == code, said.err
        return json.loads(said.out) if said.out else said.err

    return call
