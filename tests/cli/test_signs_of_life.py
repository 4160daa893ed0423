"""No command is silent for long where nobody sees a picture: each line of these would come after ten seconds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Agentfw

from agentfw.printing import out as progress

_LINE = re.compile(r"   \d+ s$", re.M)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds are over at once."""
    monkeypatch.setattr(progress, "_EVERY_ELSEWHERE", 0.0005)


def run(folder: Path) -> list[str]:
    return ["run", "calendar", "--policy", "random", "--episodes", "2"]


def train(folder: Path) -> list[str]:
    return ["train", "bandit", "--policy", "biased", "--optimizer", "centred", "--learner", "bias", "--updates", "2"]


@pytest.mark.slow
@pytest.mark.parametrize("words", [run, train])
def test_a_command_gives_a_sign_of_life(
    agentfw: Agentfw, hurried: None, tmp_path: Path, words: Callable[[Path], list[str]]
) -> None:
    answer = agentfw(*words(tmp_path))

    assert answer.code == 0, answer.err
    assert _LINE.search(answer.err)
    assert not _LINE.search(answer.out)
    assert "\r" not in answer.err
