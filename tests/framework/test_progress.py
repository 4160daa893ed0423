"""Whatever takes long gives a sign of life, also while nothing is done."""

from __future__ import annotations

import io
import sys
import time

import pytest

from agentfw.printing import out as progress
from agentfw.printing.out import Out


class Stream(io.StringIO):
    """What is printed, perhaps on a terminal."""

    is_terminal = False

    def isatty(self) -> bool:
        return self.is_terminal

    def wait_for(self, text: str, times: int = 1) -> None:
        """Come back when this was printed so often. A test that never ends has failed."""
        while self.getvalue().count(text) < times:
            time.sleep(0.001)


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds are over at once."""
    for name in ("_FIRST_ON_TERMINAL", "_EVERY_ON_TERMINAL", "_EVERY_ELSEWHERE"):
        monkeypatch.setattr(progress, name, 0.001)


@pytest.mark.usefixtures("hurried")
def test_a_step_that_never_ends_is_told_again_and_again(stream: Stream) -> None:
    with Out().progress("reading") as tell:
        stream.wait_for(" s\nreading   ", 2)
        tell("reading: 3 of 20")
        stream.wait_for("reading: 3 of 20   ")

    assert not set(stream.getvalue()) & set("\r\x1b")
    assert stream.getvalue().endswith(" s\n")


@pytest.mark.usefixtures("hurried")
def test_on_a_terminal_the_line_is_replaced_and_gone_at_the_end(stream: Stream) -> None:
    stream.is_terminal = True

    with Out().progress("reading"):
        stream.wait_for("\r\x1b[Kreading   ")

    assert "\n" not in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("is_terminal", [False, True])
def test_what_is_quick_says_nothing(stream: Stream, monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    stream.is_terminal = is_terminal
    for name in ("_FIRST_ON_TERMINAL", "_EVERY_ELSEWHERE"):
        monkeypatch.setattr(progress, name, 600.0)

    with Out().progress("reading") as tell:
        tell("reading: 1 of 2")

    assert stream.getvalue() == ""


@pytest.mark.usefixtures("hurried")
def test_quiet_says_nothing(stream: Stream) -> None:
    with Out(quiet=True).progress("reading"), Out().progress("writing"):
        stream.wait_for("writing")

    assert "reading" not in stream.getvalue()
