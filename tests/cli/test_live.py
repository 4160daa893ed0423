"""The live picture: on a terminal of any width, and nowhere else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")

SITE = Path(__file__).parents[1] / "site"
WORDS = ("run", "guessing", "--policy", "hashing", "--episodes", "12", "--set", "policy.pause=0.01")


def on_terminal(folder: Path, columns: int, **environment: str) -> str:
    """What a run writes to a terminal that is so wide."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "agentfw_cli.main", *WORDS],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        cwd=folder,
        env={**inherited, "PYTHONPATH": str(SITE), "TERM": "xterm", **environment},
    )
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 65536):
            written += part
    except OSError:  # Linux says so when the other side has closed
        pass
    os.close(ours)
    assert process.wait(timeout=30) == 0
    return written.decode()


@pytest.mark.parametrize("columns", [30, 80, 200])
def test_the_picture_fits_its_terminal(columns: int, tmp_path: Path) -> None:
    written = on_terminal(tmp_path, columns)
    lines = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line) for line in re.split(r"[\r\n]+", written)]

    assert any("60/60" in line for line in lines), "12 episodes of 5 rounds"
    assert any("error, last" in line for line in lines)
    drawn = [line for line in lines if "━" in line]
    assert drawn
    assert all(len(line) <= columns for line in drawn)


def test_no_colour_where_none_is_wanted(tmp_path: Path) -> None:
    written = on_terminal(tmp_path, 80, NO_COLOR="1")

    assert "60/60" in written
    assert not re.search(r"\x1b\[[0-9;]*(3[0-9]|4[0-9]|38;5;\d+)m", written)


def test_a_dumb_terminal_gets_lines(tmp_path: Path) -> None:
    written = on_terminal(tmp_path, 80, TERM="dumb")

    assert "\x1b" not in written
    assert "60/60   error, last 25: 0." in written
