"""Users and years that many tests look at, made once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentfw_plugins.worlds.calendar.dataset import Calendar, Dataset


@pytest.fixture(scope="session")
def dataset() -> Dataset:
    return Dataset(seed=7)


@pytest.fixture(scope="session")
def calendars(dataset: Dataset) -> list[Calendar]:
    """The years of the ten held-out users."""
    return [dataset.calendar(dataset.user(name)) for name in dataset.users("test")]


@pytest.fixture(scope="session")
def calendar(calendars: list[Calendar]) -> Calendar:
    return calendars[0]


@pytest.fixture
def bakery() -> Path:
    return Path(__file__).parent / "bakery.yaml"


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
