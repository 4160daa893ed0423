"""Prints all output of the commands.

Data goes to stdout, everything else to stderr. With `--json`, the data is a single JSON value, and nothing else goes to
stdout. Colours are off in a pipe or with NO_COLOR. Control characters in foreign text don't reach the terminal.

    out = Out(json=as_json)
    out.table(["run", "state"], [["2026-11-21-inbox-7f3a19c4", "done"]])

A step that takes long shows its progress: a line that is replaced on a terminal, or one every ten seconds elsewhere. A
thread prints it, so it also comes while nothing else does.

    with out.progress("reading the runs") as tell:
        for number, run in enumerate(runs, start=1):
            tell(f"reading the runs: {number} of {len(runs)}")
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

from ..boundary.output import data_stream, hand_over_stdout
from ..errors import storing

__all__ = ["Out", "Progress", "counted", "docs_page", "shown_path", "width_of"]

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def counted(count: int, noun: str) -> str:
    """A number of things in words.

    >>> counted(1, "user"), counted(2000, "user"), counted(2, "memory")
    ('1 user', '2,000 users', '2 memories')
    """
    return f"{count:,} {noun if count == 1 else re.sub('(?<![aeiou])y$', 'ie', noun) + 's'}"


class Out:
    """Prints a command's output."""

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json, self.quiet = json, quiet

    @property
    def stream(self) -> IO[str]:
        """Where the result goes: stdout, which `sys.stdout` isn't any more once a command has loaded plugins."""
        return data_stream()

    def hand_over(self) -> None:
        """Let whatever prints have stdout again, for a prompt that draws on it."""
        hand_over_stdout()

    def data(self, value: Any) -> None:
        """Print the result as JSON. JSON has no infinity or NaN, so these become null."""
        import json

        _print(json.dumps(_finite(value), indent=2, ensure_ascii=False, default=str, allow_nan=False))

    def line(self, text: str = "") -> None:
        """Print a line of the result, for people."""
        _print(_harmless(text))

    def words(self, text: str) -> None:
        """Print a part of a line of the result at once."""
        print(_harmless(text), end="", flush=True, file=data_stream())

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
        """Print aligned columns. On a narrow terminal, cells are wrapped, or each row is printed as a few lines."""
        rows = [[_harmless(cell).replace("\n", " ") for cell in row] for row in rows]
        every = list(zip(columns, *rows, strict=True))
        widths = [max(map(width_of, column)) for column in every]
        if self.stream.isatty():
            room, between = shutil.get_terminal_size().columns, 2 * (len(columns) - 1)
            words = [max((width_of(word) for cell in column for word in cell.split()), default=0) for column in every]
            if sum(words) + between > room and len(columns) > 1:
                for row in rows:
                    parts = (f"{head} {cell}".strip() for head, cell in zip(columns[1:], row[1:], strict=True) if cell)
                    for text in (row[0], *parts):
                        for number, line in enumerate(_wrapped(text, room - 4)):
                            self.line(f"{'' if text is row[0] else '  ' if number == 0 else '    '}{line}")
                return
            while sum(widths) + between > room and any(map(int.__lt__, words, widths)):
                widest = max(range(len(widths)), key=lambda place: (widths[place] > words[place], widths[place]))
                widths[widest] -= 1
        if any(columns):
            self.line(self.style(_row(columns, widths, right)[0], "dim"))
        for row in rows:
            for text in _row(row, widths, right):
                self.line(text)

    def note(self, text: str) -> None:
        """Print additional information to stderr."""
        if not self.quiet:
            _print_to_stderr(self.style(_harmless(text), "dim", stream=sys.stderr))

    def warning(self, text: str) -> None:
        """Print what a user must know to stderr, even with --quiet."""
        _print_to_stderr(self.style(_harmless(text), "yellow", stream=sys.stderr))

    def progress(self, doing: str) -> Progress:
        """Show on stderr that a long block is still running. Call the result with another text to replace this one."""
        return Progress(doing, quiet=self.quiet)

    def error(self, message: str, fix: str = "", *, label: str = "error") -> None:
        """Print an error and its fix, even with --quiet."""
        _print_to_stderr(f"{self.style(f'{label}:', 'red', 'bold', stream=sys.stderr)} {_harmless(message)}")
        if fix:
            _print_to_stderr(f"{self.style('  fix:', 'green', 'bold', stream=sys.stderr)} {_harmless(fix)}")

    def style(self, text: str, *names: str, stream: IO[str] | None = None) -> str:
        """Style the text if colours are on."""
        stream = stream or self.stream
        is_coloured = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        if not text or not is_coloured:
            return text
        return f"\x1b[{';'.join(_STYLES[name] for name in names)}m{text}\x1b[0m"


def width_of(text: str) -> int:
    """Number of terminal cells that a text takes. Wide characters take two, combining marks none.

    >>> width_of("mail"), width_of("手紙")
    (4, 4)
    """
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _print(text: str) -> None:
    with storing("write to stdout"):
        print(text, file=data_stream())


def _print_to_stderr(text: str) -> None:
    with suppress(OSError):  # where stderr is full or closed, nobody can be told
        print(text, file=sys.stderr)


_OURS = rf"\x1b\[(?:0|(?:{'|'.join(_STYLES.values())})(?:;\d+)?)m"
_CONTROL = re.compile(rf"({_OURS})|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _harmless(text: str) -> str:
    """Text without control characters, except line breaks and our own styles."""
    return text if text.isprintable() else _CONTROL.sub(lambda found: found[1] or "", text)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> list[str]:
    columns = zip(cells, widths, strict=True)
    wrapped = [_wrapped(cell, width) if width_of(cell) > width else [cell] for cell, width in columns]
    lines = []
    for parts in zip_longest(*wrapped, fillvalue=""):
        padded = []
        for place, (part, width) in enumerate(zip(parts, widths, strict=True)):
            space = " " * (width - width_of(part))
            padded.append(space + part if place in right else part + space)
        lines.append("  ".join(padded).rstrip())
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    """Wrap the text into lines of at most this width, between words. A longer word stays whole."""
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and width_of(joined) > width:
            lines.append(word)
        else:
            lines[-1] = joined
    return lines


_FIRST_ON_TERMINAL, _EVERY_ON_TERMINAL = 2.0, 0.2
_EVERY_ELSEWHERE = 10.0  # seconds: a terminal replaces a line by the next; a log keeps all of them


def shown_path(path: Path) -> str:
    """A path as a person types it: relative to the current directory if it is below it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # OSError: the current directory was deleted
        return str(path)


def docs_page(path: str) -> str:
    """The address of a page of the documentation, by its path in the repository, which an installed user hasn't got."""
    return f"https://github.com/agentfw/agentfw/blob/main/{path}"


class Progress:
    """Prints what its block is doing, and for how long, to stderr."""

    def __init__(self, doing: str | Callable[[], str], *, quiet: bool = False) -> None:
        self.doing, self.quiet = doing, quiet
        self._on_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._every = _EVERY_ON_TERMINAL if self._on_terminal else _EVERY_ELSEWHERE
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_telling, name="agentfw-progress", daemon=True)
        self._shown = False

    def __call__(self, doing: str) -> None:
        """Replace the text."""
        self.doing = doing

    def postpone(self) -> None:
        """Print the next line later, because something else was just printed."""
        self._due = time.monotonic() + self._every

    def __enter__(self) -> Progress:
        self._began = time.monotonic()
        self._due = self._began + (_FIRST_ON_TERMINAL if self._on_terminal else self._every)
        if not self.quiet:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if not self.quiet:
            self._thread.join()
        if self._shown and self._on_terminal:
            self._print("\r\x1b[K", end="")

    def _keep_telling(self) -> None:
        while not self._over.wait(max(0.0, self._due - time.monotonic())):
            if time.monotonic() >= self._due:
                self.postpone()
                self._shown = True
                doing = self.doing if isinstance(self.doing, str) else self.doing()
                line = f"{doing}   {time.monotonic() - self._began:.0f} s"
                self._print(f"\r\x1b[K{line}" if self._on_terminal else line, end="" if self._on_terminal else "\n")

    def _print(self, text: str, end: str) -> None:
        with suppress(OSError, ValueError):  # where stderr is full or closed, nobody can be told
            print(text, end=end, file=sys.stderr, flush=True)
