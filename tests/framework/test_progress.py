"""Whatever takes long gives a sign of life, also while nothing is done."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import pytest

from agentfw.printing import out as progress
from agentfw.printing.out import Out


class Stream:
    """What is printed, piece by piece."""

    def __init__(self, *, is_terminal: bool) -> None:
        self.is_terminal, self.pieces = is_terminal, list[str]()

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        self.pieces.append(text)
        return len(text)

    def flush(self) -> None:
        pass

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds are over at once."""
    for name in ("_FIRST_ON_TERMINAL", "_EVERY_ON_TERMINAL", "_EVERY_ELSEWHERE"):
        monkeypatch.setattr(progress, name, 0.001)


def stderr(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool = False) -> Stream:
    stream = Stream(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def until(stream: Stream, text: str) -> Iterator[int]:
    """Turns until a text was printed. A test that never ends has failed."""
    return itertools.takewhile(lambda _: text not in stream.text, itertools.count())


def test_a_step_that_never_ends_is_told_again_and_again(hurried: None, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stderr(monkeypatch)

    with Out().progress("reading") as tell:
        for _ in until(stream, "reading   0 s\nreading   0 s\n"):
            pass
        tell("reading: 3 of 20")
        for _ in until(stream, "reading: 3 of 20   "):
            pass
    ended = stream.text

    assert not set(ended) & set("\r\x1b")
    assert ended.endswith(" s\n")


def test_on_a_terminal_the_line_is_replaced_and_gone_at_the_end(hurried: None, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stderr(monkeypatch, is_terminal=True)

    with Out().progress("reading"):
        for _ in until(stream, "\r\x1b[Kreading   0 s"):
            pass

    assert "\n" not in stream.text
    assert stream.text.endswith("\r\x1b[K")


@pytest.mark.parametrize("is_terminal", [False, True])
def test_what_is_quick_says_nothing(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    stream = stderr(monkeypatch, is_terminal=is_terminal)
    monkeypatch.setattr(progress, "_FIRST_ON_TERMINAL", 600.0)
    monkeypatch.setattr(progress, "_EVERY_ELSEWHERE", 600.0)

    with Out().progress("reading") as tell:
        tell("reading: 1 of 2")

    assert stream.text == ""


def test_quiet_says_nothing(hurried: None, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = stderr(monkeypatch)

    with Out(quiet=True).progress("reading"), Out().progress("writing"):
        for _ in until(stream, "writing"):
            pass

    assert "reading" not in stream.text
