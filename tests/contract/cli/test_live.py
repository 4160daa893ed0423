"""The live picture: on a terminal of any width, and nowhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import SITE

pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")

TRAINING = (
    *("train", "bandit", "--policy", "biased", "--optimizer", "centred", "--learner", "bias", "--updates", "4"),
    *("--set", "tasks=2", "--set", "evaluation.tasks=3", "--set", "evaluation.every=2", "--set", "policy.pause=0.01"),
)
WORDS = ("run", "guessing", "--policy", "hashing", "--episodes", "12", "--set", "policy.pause=0.01")


def on_terminal(folder: Path, columns: int, words: tuple[str, ...] = WORDS, **environment: str) -> str:
    """What a run or a training writes to a terminal that is so wide."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    command = [sys.executable, "-m", "agentfw_cli.main", *words]
    variables = {**inherited, "PYTHONPATH": str(SITE), "TERM": "xterm", **environment}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, cwd=folder, env=variables)
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 65536):
            written += part
    except OSError:  # Linux says so when the other side has closed
        pass
    os.close(ours)
    assert process.wait(timeout=120) == 0
    return written.decode()


def lines_of(written: str) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line) for line in re.split(r"[\r\n]+", written)]


def fits(lines: list[str], columns: int) -> bool:
    """Whether there is a picture, and no line of it is too long."""
    drawn = [line for line in lines if re.search("[━▁-█]", line)]
    return 0 < max(map(len, drawn)) <= columns


def test_the_picture_of_a_run_fits_its_terminal_and_has_no_colour_where_none_is_wanted(tmp_path: Path) -> None:
    written = on_terminal(tmp_path, 30, NO_COLOR="1")

    lines = lines_of(written)
    assert any("60/60" in line for line in lines), "12 episodes of 5 rounds"
    assert any("error, last" in line for line in lines)
    assert fits(lines, 30)
    assert not re.search(r"\x1b\[[0-9;]*(3[0-9]|4[0-9]|38;5;\d+)m", written)


def test_a_dumb_terminal_gets_lines(tmp_path: Path) -> None:
    written = on_terminal(tmp_path, 80, TERM="dumb")

    assert "\x1b" not in written
    assert "60/60   error, last 25: 0." in written


def test_the_picture_of_a_training_fits_its_terminal(tmp_path: Path) -> None:
    lines = lines_of(on_terminal(tmp_path, 30, TRAINING))

    assert any("4/4" in line for line in lines)
    for words in ("missed 0.", "reward ", "KL ", "entropy ", "playing, update ", "evaluating after 4", "evaluate "):
        assert any(line.startswith(words) for line in lines), words
    assert fits(lines, 30)
