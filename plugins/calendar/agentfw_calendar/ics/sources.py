"""Where calendars come from and go back to: files, and addresses of published calendars.

    source = FileSource(Path("my.ics"))
    parts = source.read(date.today(), 28)
    source.write([(parts[0], data)])

A source is never changed while a session runs. A file is never changed at all: what was decided goes into a new file.
A calendar on a CalDAV server, in `caldav_source`, is changed in place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

import httpx

from agentfw.errors import EndpointError, UsageError
from agentfw.runs import write_whole

from ..language.texts import Said
from .ics_lines import FileLines

_LARGEST = 100_000_000
"""Maximum size in bytes; people's largest calendars have a tenth of it."""


@dataclass(frozen=True, eq=False)
class Part:
    """A piece of a calendar that is written as a whole: a file, or one event of a server."""

    source: Source
    name: str
    lines: FileLines


class Saved(NamedTuple):
    """What became of writing."""

    told: list[Said | str]
    """Where the calendar is now, or what came in between."""
    refused: Sequence[Part] = ()
    """Parts that somebody changed at this moment, and that stay as they are."""


class Source(Protocol):
    """A calendar."""

    in_place: bool
    """Whether `write` changes the calendar itself."""
    identity: str
    """What identifies it in later sessions."""

    @property
    def name(self) -> str:
        """As the person gave it."""

    def read(self, since: date, days: int) -> Sequence[Part]:
        """The parts that may have events in these days."""

    def write(self, changed: Sequence[tuple[Part, bytes]]) -> Saved:
        """Write parts."""


class NewFile:
    """A calendar that isn't changed itself: what was decided goes into one new file, session after session."""

    in_place = False
    file: Path
    output: Path | None
    mode = 0o600

    def go_on(self, last: tuple[Path, Collection[str]] | None) -> None:
        """Choose the file to write: as given, else the last one, unless another program has changed it."""
        if self.output is None and last is not None:
            path, wrote = last
            self.output = path if not path.exists() or digest(path.read_bytes()) in wrote else None
        self.output = self.output or _free(self.file)

    def write(self, changed: Sequence[tuple[Part, bytes]]) -> Saved:
        assert self.output is not None
        for _, data in changed:
            write_whole(self.output, data, mode=self.mode)
        return Saved([str(self.output)] if changed else [])


class FileSource(NewFile):
    """An .ics file. The new file is written beside it, as readable to others as the old one."""

    def __init__(self, file: Path, output: Path | None = None) -> None:
        self.file = file
        self.output = _checked(file, output)
        self.identity = os.path.abspath(file)  # one file, from whatever folder it is named

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
            self.mode = self.file.stat().st_mode & 0o666
        except OSError as error:
            raise UsageError(f"can't read {self.file}: {error.strerror}", fix="pass the path of an .ics file") from None
        return [Part(self, self.name, _calendar(data, self.name))]


class AddressSource(NewFile):
    """A calendar that is published at an address. It can't be written there, so the new file is a local one."""

    def __init__(self, address: str, output: Path | None = None) -> None:
        self._address = re.sub(r"^webcal://", "https://", address)
        parts = urlsplit(self._address)
        # The rest of such an address is often a secret, and so is a name without .ics, as at iCloud and Nextcloud.
        name = Path(parts.path).name if parts.path.lower().endswith(".ics") else "calendar.ics"
        self._shown = f"{parts.hostname}/{name}"
        self.file = Path(re.sub(r"[^\w.-]", "_", name).lstrip("."))
        self.output = output
        # The address is a secret, and isn't kept.
        self.identity = f"{self._shown} {sha256(self._address.encode()).hexdigest()[:16]}"

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


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()
