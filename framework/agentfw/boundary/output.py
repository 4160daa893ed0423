"""Standard output belongs to the data of a command, and no secret is printed or logged, by whatever code.

The command line sets this up once: nothing is swapped at a call or an import, because a stream that is freed while
another thread prints to it ends the process. Nothing at all is swapped where agentfw is used from Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from .secrets import Pieces, strike

if TYPE_CHECKING:
    import logging

__all__ = ["data_kept", "data_stream", "hand_over_stdout", "send_prints_to_stderr", "struck_logs", "struck_streams"]


class _Elsewhere:
    """What `sys.stdout` is for code that isn't ours: it writes to stderr."""

    def fileno(self) -> int:
        # On a terminal that of the terminal: `input` edits lines only where it is.
        return _data.fileno() if _data is not None and _data.isatty() else sys.stderr.fileno()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


_ELSEWHERE = _Elsewhere()
_data: TextIO | None = None


@contextmanager
def data_kept(*, for_good: bool = False) -> Iterator[None]:
    """Keep `sys.stdout` for the data of a command: `send_prints_to_stderr` then sends everything else to stderr.

    With `for_good` it stays so, because a thread of a plugin may print when the command is over.
    """
    global _data
    before = _data, sys.stdout
    _data = sys.stdout
    try:
        yield
    finally:
        if not for_good:
            _data, sys.stdout = before


def send_prints_to_stderr() -> None:
    """From now on, what is printed goes to stderr. Called before plugins are imported; has no effect in a library."""
    if _data is not None:
        sys.stdout = cast(TextIO, _ELSEWHERE)


def hand_over_stdout() -> None:
    """Let whatever prints have stdout: a command of a plugin, whose data it is, or a prompt that draws on it."""
    global _data
    if _data is not None:
        sys.stdout, _data = _data, None


def data_stream() -> TextIO:
    """Where the data of a command goes."""
    return sys.stdout if _data is None else _data


class _StruckStream:
    def __init__(self, stream: TextIO) -> None:
        self._stream, self._pieces = stream, Pieces()

    def write(self, text: str) -> int:
        self._stream.write(self._pieces.feed(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def close(self) -> None:
        """Does nothing, because whoever prints to a stream doesn't own it."""

    def end(self) -> None:
        with suppress(OSError):  # where the stream is full or closed, nobody can be told
            self._stream.write(self._pieces.end())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_stand_ins: list[_StruckStream] = []
"""All that were ever in place: a thread may still be printing to one when it is replaced."""


@contextmanager
def struck_streams() -> Iterator[None]:
    """Strike secrets out of what is written to `sys.stdout` and `sys.stderr`. For a whole process."""
    if isinstance(sys.stderr, _StruckStream):
        yield
        return
    before, stand_ins = (sys.stdout, sys.stderr), (_StruckStream(sys.stdout), _StruckStream(sys.stderr))
    _stand_ins.extend(stand_ins)
    sys.stdout, sys.stderr = streams = cast(TextIO, stand_ins[0]), cast(TextIO, stand_ins[1])
    failed = False
    try:
        yield
    except Exception:  # Python prints its traceback later, and to what is stderr then
        failed = True
        raise
    finally:
        if not failed and sys.stdout is streams[0]:
            sys.stdout = before[0]
        if not failed and sys.stderr is streams[1]:
            sys.stderr = before[1]
        for stream in stand_ins:
            stream.end()


@contextmanager
def struck_logs() -> Iterator[None]:
    """Strike secrets out of log records, whatever handlers there are."""
    import logging
    import traceback

    factory = logging.getLogRecordFactory()

    def make(*arguments: Any, **more: Any) -> logging.LogRecord:
        record = factory(*arguments, **more)
        with suppress(Exception):  # its arguments don't fit: whoever handles it says so
            text = record.getMessage()
            if (without := strike(text)) != text:
                record.msg, record.args = without, ()
        if record.exc_info and record.exc_info[1] is not None:
            text = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
            if (without := strike(text)) != text:
                record.exc_text = without
        return record

    logging.setLogRecordFactory(make)
    try:
        yield
    finally:
        logging.setLogRecordFactory(factory)
