"""A person's own calendar through the command: files, a CalDAV server, and what is kept of the decisions.

`calendar_session` is the only place that knows how the command is started.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from calendar_files import ics_file

from agentfw_cli.main import main

__all__ = ["ics_file"]


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

    def call(command: str, *words: object, answers: str | None = None, since: str = "2026-11-23") -> Said:
        line = ["calendar", command, *map(str, words), "--hub", "hub.db"]
        if command in ("decide", "list"):
            line += ["--from", since]
        if answers is not None:
            line += ["--answers", "-"]
        monkeypatch.setattr(sys, "stdin", io.StringIO(answers or ""))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(line)
        return Said(int(ended.value.code or 0), *capsys.readouterr())

    return call
