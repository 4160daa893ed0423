"""Calendars to read, written on the spot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


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
