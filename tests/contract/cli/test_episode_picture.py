"""`agentfw report --picture`: one episode as a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Agentfw = Callable[..., Any]


@pytest.mark.slow
def test_one_episode_becomes_a_picture(agentfw: Agentfw, tmp_path: Path) -> None:
    agentfw("run", "inbox", "--episodes", "2", "--quiet")
    before = {path.name for path in next((tmp_path / "runs").iterdir()).iterdir()}
    answer = agentfw("report", "--episode", "00001-0", "--picture", "day.svg")
    assert (answer.code, answer.out) == (0, "day.svg\n")
    assert "inbox, episode 00001-0" in (tmp_path / "day.svg").read_text("utf-8")
    assert {path.name for path in next((tmp_path / "runs").iterdir()).iterdir()} == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--episode", "00000-0"), "add --picture FILE"),
        (("--picture", "day.png"), "ends in .svg"),
        (("--picture", "day.svg", "--episode", "7"), "the first is 00000-0, the last 00001-0"),
    ],
)
def test_a_picture_that_cannot_be_is_told(agentfw: Agentfw, words: tuple[str, ...], says: str) -> None:
    agentfw("run", "inbox", "--episodes", "2", "--quiet")
    answer = agentfw("report", *words)
    assert answer.code == 2
    assert says in answer.err
