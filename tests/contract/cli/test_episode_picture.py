"""`agentfw report --picture`: one episode as a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Agentfw = Callable[..., Any]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["day.png", "day.svg"])
def test_one_episode_becomes_a_picture(agentfw: Agentfw, tmp_path: Path, name: str) -> None:
    agentfw("run", "inbox", "--episodes", "2", "--quiet")
    before = {path.name for path in next((tmp_path / "runs").iterdir()).iterdir()}
    answer = agentfw("report", "--episode", "00001-0", "--picture", name)
    assert (answer.code, answer.out) == (0, f"{name}\n")
    picture = (tmp_path / name).read_bytes()
    assert picture.startswith(b"\x89PNG") if name.endswith("png") else b"inbox, episode 00001-0" in picture
    assert {path.name for path in next((tmp_path / "runs").iterdir()).iterdir()} == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--episode", "00000-0"), "add --picture FILE"),
        (("--picture", "day.gif"), "ends in .png or .svg"),
        (("--picture", "day.png", "--episode", "7"), "the first is 00000-0, the last 00001-0"),
    ],
)
def test_a_picture_that_cannot_be_is_told(agentfw: Agentfw, words: tuple[str, ...], says: str) -> None:
    agentfw("run", "inbox", "--episodes", "2", "--quiet")
    answer = agentfw("report", *words)
    assert answer.code == 2
    assert says in answer.err
