"""Strikes secrets out of what is printed and logged, by whatever code.

with struck_streams(), struck_logs():
    print(key)      # **********
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from .secrets import Pieces, strike

if TYPE_CHECKING:
    import logging

__all__ = ["struck_logs", "struck_streams"]


class _StruckStream:
    """Stands in for stdout or stderr."""

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


@contextmanager
def struck_streams() -> Iterator[None]:
    """Strike secrets out of what is written to `sys.stdout` and `sys.stderr`."""
    before = sys.stdout, sys.stderr
    if isinstance(sys.stderr, _StruckStream):
        yield
        return
    streams = _StruckStream(sys.stdout), _StruckStream(sys.stderr)
    sys.stdout, sys.stderr = (cast(TextIO, stream) for stream in streams)
    try:
        yield
    except Exception:  # Python prints its traceback later, and to what is stderr then
        raise
    except BaseException:
        sys.stdout, sys.stderr = before
        raise
    else:
        sys.stdout, sys.stderr = before
    finally:
        for stream in streams:
            stream.end()


@contextmanager
def struck_logs() -> Iterator[None]:
    """Strike secrets out of log records, whatever handlers there are."""
    import logging

    factory = logging.getLogRecordFactory()

    def make(*arguments: Any, **more: Any) -> logging.LogRecord:
        record = factory(*arguments, **more)
        _strike_record(record)
        return record

    logging.setLogRecordFactory(make)
    try:
        yield
    finally:
        logging.setLogRecordFactory(factory)


def _strike_record(record: logging.LogRecord) -> None:
    import traceback

    try:
        text = record.getMessage()
    except Exception:  # its arguments don't fit: whoever handles it says so
        return
    if (without := strike(text)) != text:
        record.msg, record.args = without, ()
    if record.exc_info and record.exc_info[1] is not None:
        text = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
        if (without := strike(text)) != text:
            record.exc_text = without
