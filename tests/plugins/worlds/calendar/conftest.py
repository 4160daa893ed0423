"""Users and years that many tests look at, made once."""

from __future__ import annotations

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


@pytest.fixture
def bakery() -> Path:
    return Path(__file__).parent / "bakery.yaml"
