"""What the live display says is going on, asked at every moment of a training."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import Any

import pytest

from agentfw.episode import Episode, Turn, Usage
from agentfw.runs.observers.observer import Observer, told_together
from agentfw_cli.progress import Progress, progress_of

SITE = Path(__file__).parents[1] / "site"


class Asked(Observer):
    """Asks for the status whenever something happens."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.seen: list[list[str]] = []

    def phase(self, name: str, update: int) -> None:
        self.seen.append(self.progress.status())

    def turned(self, episode: Episode, turn: Turn) -> None:
        self.seen.append(self.progress.status())


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(SITE))
    laboratory = importlib.import_module("agentfw_laboratory.training")

    def statuses(staleness: int) -> list[list[str]]:
        training = laboratory.create(tmp_path, staleness=staleness, tasks=2)
        progress = progress_of(training.info)
        asked = Asked(progress)
        asyncio.run(training.execute(told_together(progress, asked)))
        doing = [line.partition(" ")[0] for line in progress.status()]
        assert [word for word in doing if word in ("playing,", "learning,", "evaluating")] == ["evaluating"]
        return asked.seen

    return statuses


def test_one_phase_is_shown_at_a_time_when_playing_and_learning_take_turns(seen: Any) -> None:
    lines = [[line for line in status if "update" in line] for status in seen(0)]

    assert {len(line) for line in lines} == {1}
    assert any(line.startswith("playing, update 1 ") and "0/8 episodes" in line for (line,) in lines)
    assert any(line.startswith("evaluating after 2 updates ") and "0/6 episodes" in line for (line,) in lines)


def test_an_overlapped_training_shows_what_is_played_and_what_is_learned(seen: Any) -> None:
    statuses = seen(1)

    first = next(status for status in statuses if any("learning, update 1 " in line for line in status))
    assert [line.partition(" ")[0] for line in first] == ["playing,", "learning,"]
    lines = [line for status in statuses for line in status if "episodes" in line]
    assert all(("/8 episodes" if line.startswith("playing") else "/6 episodes") in line for line in lines)


def test_tokens_are_told_where_they_may_cost_something(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(SITE))
    progress = progress_of(importlib.import_module("agentfw_laboratory.training").create(tmp_path).info)
    own, foreign = Usage(prompt=100, cached=0, sampled=10, cost=0.0), Usage(prompt=100, cached=0, sampled=10, cost=None)

    progress.spent(own, Usage(0, 0, 0))
    of_own = progress.spending()
    progress.spent(foreign, Usage(0, 0, 0))

    assert of_own == "", "a model of one's own costs nothing"
    assert progress.spending().startswith("tokens 110")
