"""Where calendars come from and go back to: files, and addresses of published calendars.

    source = FileSource(Path("my.ics"))
    parts = source.read(date.today(), 28)
    source.write([(parts[0], data)])

A source is never changed while a session runs. A file is never changed at all: what was decided goes into a new file.
A calendar on a CalDAV server, in `caldav_source`, is changed in place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import httpx

from agentfw.errors import EndpointError, UsageError
from agentfw.runs import write_whole

from .ics_lines import FileLines

__all__ = ["AddressSource", "FileSource", "Part", "Source"]

_LARGEST = 100_000_000
"""Maximum size in bytes; people's largest calendars have a tenth of it."""


@dataclass(frozen=True, eq=False)
class Part:
    """A piece of a calendar that is written as a whole: a file, or one event of a server."""

    source: Source
    name: str
    lines: FileLines


class Source(Protocol):
    """A calendar."""

    in_place: bool
    """Whether `write` changes the calendar itself."""

    @property
    def name(self) -> str:
        """As the person gave it."""

    def read(self, since: date, days: int) -> Sequence[Part]:
        """The parts that may have events in these days."""

    def write(self, changed: Sequence[tuple[Part, bytes]]) -> list[str]:
        """Write parts. Returns where they are now, or what came in between."""


class FileSource:
    """An .ics file. The new file is written beside it, as readable to others as the old one."""

    in_place = False

    def __init__(self, file: Path, output: Path | None = None) -> None:
        self.file = file
        self.output = _checked(file, output)

    @property
    def name(self) -> str:
        return str(self.file)

    def read(self, since: date, days: int) -> Sequence[Part]:
        try:
            size = self.file.stat().st_size
            if size > _LARGEST:
                raise UsageError(
                    f"{self.file} has {size:,} bytes; at most {_LARGEST:,} are read",
                    fix="export a smaller part of it",
                )
            data = self.file.read_bytes()
        except OSError as error:
            raise UsageError(f"can't read {self.file}: {error.strerror}", fix="pass the path of an .ics file") from None
        return [Part(self, self.name, _calendar(data, self.name))]

    def write(self, changed: Sequence[tuple[Part, bytes]]) -> list[str]:
        written = []
        for _, data in changed:
            path = self.output or _free(self.file)
            write_whole(path, data, mode=self.file.stat().st_mode & 0o666)
            written.append(str(path))
        return written


class AddressSource:
    """A calendar that is published at an address. It can't be written there, so the new file is a local one."""

    in_place = False

    def __init__(self, address: str, output: Path | None = None) -> None:
        self._address = re.sub(r"^webcal://", "https://", address)
        parts = urlsplit(self._address)
        self._shown = f"{parts.hostname}/{Path(parts.path).name}"  # the rest of such an address is often a secret
        self._file = Path(re.sub(r"[^\w.-]", "_", Path(parts.path).name).lstrip(".") or "calendar.ics")
        self.output = output

    @property
    def name(self) -> str:
        return self._shown

    def read(self, since: date, days: int) -> Sequence[Part]:
        data = bytearray()
        try:
            with httpx.stream("GET", self._address, follow_redirects=True, timeout=30) as reply:
                reply.raise_for_status()
                for chunk in reply.iter_bytes():
                    data += chunk
                    if len(data) > _LARGEST:
                        raise UsageError(f"{self.name} has more than {_LARGEST:,} bytes", fix="download a smaller part")
        except httpx.HTTPStatusError as error:
            raise EndpointError(
                f"can't read {self.name}: HTTP {error.response.status_code}",
                fix="copy the calendar's secret address again; it may have been reset",
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EndpointError(
                f"can't read {self.name}: {type(error).__name__}", fix="check the address and the network"
            ) from None
        return [Part(self, self.name, _calendar(bytes(data), self.name))]

    def write(self, changed: Sequence[tuple[Part, bytes]]) -> list[str]:
        written = []
        for _, data in changed:
            path = self.output or _free(self._file)
            write_whole(path, data, mode=0o600)
            written.append(str(path))
        return written


def _calendar(data: bytes, name: str) -> FileLines:
    lines = FileLines(data)
    if not lines.blocks("VEVENT") and not any(block.kind == "VCALENDAR" for block in lines.top):
        raise UsageError(
            f"{name} is no iCalendar file: it has no BEGIN:VCALENDAR",
            fix="export the calendar as .ics and pass that file",
        )
    return lines


def _checked(file: Path, given: Path | None) -> Path | None:
    if given is None:
        return None
    if given.exists() and file.exists() and given.samefile(file):
        raise UsageError(f"{given} is the calendar itself, which is never changed", fix="choose another --output")
    if not given.parent.is_dir():
        raise UsageError(f"there is no directory {given.parent}", fix="create it, or choose another --output")
    return given


def _free(file: Path) -> Path:
    """A free name beside a file."""
    numbered = (f"{file.stem}.decided{f'-{number}' if number > 1 else ''}.ics" for number in range(1, 10_000))
    return next(path for name in numbered if not (path := file.with_name(name)).exists())
