"""Calendars on CalDAV servers, such as Nextcloud, Fastmail, iCloud or Radicale: found, read, and written back in place.

    found = calendars_at(CalDavSource("caldavs://ana@dav.example/ana/"))
    source = CalDavSource(found[0].address)
    parts = source.read(date.today(), 28)
    source.write([(parts[0], data)])

An address is that of a calendar, a home, a person or the server. One without any calendar for events is an error,
because it is probably not the one that was meant.

An edit by another client is never overwritten. Each event is written with the ETag that it was read with (If-Match). If
the server has another version by now, that version stays, and the event is reported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from agentfw.errors import EndpointError, MissingExtraError, UsageError
from agentfw.runs import write_whole

from ..language.texts import Said
from .ics_events import printable
from .ics_lines import FileLines
from .sources import Part, Saved

PASSWORD = "AGENTFW_CALDAV_PASSWORD"
"""Environment variable with the password."""
_LOCAL = ("localhost", "127.0.0.1", "::1")
_MARGIN = timedelta(days=3)
"""The person's zone is known only after reading."""
_QUERY = """<?xml version="1.0" encoding="utf-8"?>
<C:calendar-query xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav">
  <D:prop><D:getetag/><C:calendar-data/></D:prop>
  <C:filter><C:comp-filter name="VCALENDAR"><C:comp-filter name="VEVENT">
    <C:time-range start="{since:%Y%m%d}T000000Z" end="{until:%Y%m%d}T000000Z"/>
  </C:comp-filter></C:comp-filter></C:filter>
</C:calendar-query>"""
_BUSY_QUERY = """<?xml version="1.0" encoding="utf-8"?>
<C:free-busy-query xmlns:C="urn:ietf:params:xml:ns:caldav">
  <C:time-range start="{since:%Y%m%d}T000000Z" end="{until:%Y%m%d}T000000Z"/>
</C:free-busy-query>"""
_DAV, _CALDAV = "{DAV:}", "{urn:ietf:params:xml:ns:caldav}"


class CalDavSource:
    """One calendar of a server. Each of its parts is one event with its changed dates."""

    in_place = True

    def __init__(self, address: str) -> None:
        if find_spec("caldav") is None:
            raise MissingExtraError(
                "reading calendars of a server", "caldav", distribution="agentfw-calendar", module="caldav"
            )
        parts = urlsplit(address)
        if parts.password:
            raise UsageError(
                "the address of a calendar must not contain a password", fix=f"set the environment variable {PASSWORD}"
            )
        secure = parts.scheme == "caldavs"
        if not secure and parts.hostname not in _LOCAL:
            raise UsageError(f"{parts.hostname} would get the password unencrypted", fix="use caldavs://")
        host = parts.netloc.rpartition("@")[2]
        self.base = f"http{'s' if secure else ''}://{host}{parts.path.rstrip('/')}/"
        self._user = unquote(parts.username or "")
        self.name = f"{host}{parts.path}"
        self.identity = address
        self._etags: dict[Part, str] = {}

    def read(self, since: date, days: int) -> Sequence[Part]:
        reply = self._reported(_QUERY, since, days)
        if reply.status != 207 or reply.tree is None:
            raise EndpointError(
                f"{self.name} is no CalDAV calendar: HTTP {reply.status}",
                fix="pass the address of one calendar, not of the server; the settings of most services show it",
            )
        self._etags.clear()
        for found in reply.tree.iter(f"{_DAV}response"):
            href, etag = found.findtext(f"{_DAV}href"), found.findtext(f".//{_DAV}getetag")
            text = found.findtext(f".//{_CALDAV}calendar-data")
            if href and text:
                part = Part(self, urljoin(self.base, href), FileLines(_with_crlf(text)))
                self._etags[part] = _strong(etag or "")
        return list(self._etags) or [Part(self, self.base, FileLines(b""))]

    def properties(self, address: str, query: str, *, depth: int) -> Any:
        """What the server says of an address and what is in it, as XML; None if it says nothing."""
        headers = {"Depth": str(depth), "Content-Type": "application/xml; charset=utf-8"}
        reply = self._asked("PROPFIND", address, query, headers)
        return reply.tree if reply.status == 207 else None

    def address_of(self, url: str) -> str:
        """The address of another calendar of the same server and user, as a person writes it."""
        scheme, _, rest = url.partition("://")
        user = f"{quote(self._user, safe='')}@" if self._user else ""
        return f"caldav{scheme.removeprefix('http')}://{user}{rest.rpartition('@')[2] if '@' in rest else rest}"

    def part(self, address: str) -> Part | None:
        """One event as it is now; None if it was deleted."""
        reply = self._asked("GET", address, "", {})
        if reply.status in (404, 410):
            return None
        if reply.status != 200:
            raise EndpointError(f"can't read {address}: HTTP {reply.status}", fix="run the same command again")
        part = Part(self, address, FileLines(_with_crlf(reply.raw)))
        self._etags[part] = _strong(reply.headers.get("ETag", ""))
        return part

    def write(self, changed: Sequence[tuple[Part, bytes]]) -> Saved:
        refused: list[Part] = []
        for number, (part, data) in enumerate(changed):
            try:
                refused += [] if self.put(part, data) else [part]
            except EndpointError as error:
                written = number - len(refused)
                raise EndpointError(f"{error.message}; {written} events are written", fix=error.fix) from None
        counts = {"on_server": len(changed) - len(refused), "not_on_server": len(refused)}
        return Saved(
            [Said(name, {"name": self.name, "count": count}) for name, count in counts.items() if count], refused
        )

    def put(self, part: Part, data: bytes) -> bool:
        """Write one event. False if somebody changed it since it was read, and then it stays as it is."""
        return self._changed("PUT", part.name, data, {"If-Match": self._etags[part] or '""'})

    def add(self, name: str, data: bytes) -> bool:
        """Write a new event. False if there is one of this name."""
        return self._changed("PUT", urljoin(self.base, name), data, {"If-None-Match": "*"})

    def delete(self, part: Part) -> bool:
        """Delete an event. False if somebody changed it since it was read, and then it stays."""
        return self._changed("DELETE", part.name, b"", {"If-Match": self._etags[part] or '""'})

    def _changed(self, method: str, address: str, data: bytes, condition: Mapping[str, str]) -> bool:
        headers = {"Content-Type": "text/calendar; charset=utf-8", **condition}
        status = self._asked(method, address, data.decode(), headers).status
        if status in (404, 409, 412):
            return False
        if status not in (200, 201, 204):
            raise EndpointError(
                f"{self.name} doesn't take the change of {address}: HTTP {status}",
                fix="check that the calendar isn't read-only, and run the same command again to go on",
            )
        return True

    def _reported(self, query: str, since: date, days: int) -> Any:
        try:
            body = query.format(since=since - _MARGIN, until=since + timedelta(days=days) + _MARGIN)
        except OverflowError:
            raise UsageError(f"{days} days from {since} go beyond the year 9999", fix="choose another --from") from None
        headers = {"Depth": "1", "Content-Type": "application/xml; charset=utf-8"}
        return self._asked("REPORT", self.base, body, headers)

    def _asked(self, method: str, address: str, body: str, headers: dict[str, str]) -> Any:
        from caldav.lib.error import AuthorizationError
        from niquests.exceptions import RequestException

        try:
            with self._client() as client:
                return client.request(address, method, body, headers)
        except AuthorizationError:
            raise EndpointError(
                f"{self.name} refuses the user {self._user or '(none)'} with this password",
                fix=f"write caldavs://USER@..., and set {PASSWORD}; many services need a password for apps",
            ) from None
        except RequestException as error:
            raise EndpointError(
                f"can't reach {self.name}: {type(error).__name__}", fix="check the address and the network"
            ) from None

    def _client(self) -> Any:
        from caldav.davclient import DAVClient

        return DAVClient(
            self.base,
            username=self._user or None,
            password=os.environ.get(PASSWORD),
            auth_type="basic" if self._user else None,
            timeout=60,
            enable_rfc6764=False,
            require_tls=False,  # an unencrypted address is only allowed on this machine
        )


def _strong(etag: str) -> str:
    """The ETag of an event without the mark of web servers that compress what they pass on: none such ever matches."""
    return etag.removeprefix("W/")


def _with_crlf(text: str) -> bytes:
    """XML makes every line end LF; iCalendar requires CRLF."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n").encode()


class CalDavBusy(CalDavSource):
    """When the owner of a calendar is busy. The server is asked for nothing else, so it may hide the events."""

    def read(self, since: date, days: int) -> Sequence[Part]:
        reply = self._reported(_BUSY_QUERY, since, days)
        if reply.status != 200 or "BEGIN:VFREEBUSY" not in reply.raw:
            raise EndpointError(
                f"{self.name} doesn't tell when its owner is busy: HTTP {reply.status}",
                fix="ask the owner to share free/busy times, or pass their calendar as a file",
            )
        return [Part(self, self.base, FileLines(reply.raw.encode()))]


_PROPERTIES = """<?xml version="1.0" encoding="utf-8"?>
<D:propfind xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><D:prop>
  <D:resourcetype/><D:displayname/><D:current-user-principal/><C:calendar-home-set/>
  <C:supported-calendar-component-set/>
</D:prop></D:propfind>"""


@dataclass(frozen=True, slots=True)
class Found:
    """A calendar on a server."""

    name: str
    address: str
    """As `caldavs://`."""


def calendars_at(source: CalDavSource) -> list[Found]:
    """The calendars at an address, the address itself if it is one."""
    looked: set[str] = set()
    waiting = [source.base, urljoin(source.base, "/.well-known/caldav")]
    while waiting:
        address = waiting.pop(0)
        elsewhere = urlsplit(address).netloc != urlsplit(source.base).netloc
        if address in looked or (elsewhere and not address.startswith("https://")):
            continue  # another host gets the password encrypted, or not at all
        looked.add(address)
        tree = source.properties(address, _PROPERTIES, depth=1)
        if tree is None:
            continue
        found = list(_calendars(source, tree, address))
        if found:
            own = [one for one in found if one.address == source.address_of(address)]
            return own or found
        # A person's address says where their calendars are, and a server's who the person is.
        for name in (f"{_CALDAV}calendar-home-set", f"{_DAV}current-user-principal"):
            waiting += [urljoin(address, href.text) for href in tree.iterfind(f".//{name}/{_DAV}href") if href.text]
    raise EndpointError(
        f"there is no calendar at {source.name}",
        fix="pass the address of a calendar or of your account; the settings of most services show it",
    )


def _calendars(source: CalDavSource, tree: Any, address: str) -> Iterator[Found]:
    for reply in tree.iter(f"{_DAV}response"):
        href = reply.findtext(f"{_DAV}href")
        if href is None or reply.find(f".//{_DAV}resourcetype/{_CALDAV}calendar") is None:
            continue
        kinds = [
            one.get("name") for one in reply.iterfind(f".//{_CALDAV}supported-calendar-component-set/{_CALDAV}comp")
        ]
        if not kinds or "VEVENT" in kinds:
            name = printable(reply.findtext(f".//{_DAV}displayname") or href.rstrip("/").rpartition("/")[2])
            yield Found(name, source.address_of(urljoin(address, href)))


def chosen_before(path: Path, address: str) -> list[str]:
    """The calendars that were chosen at this address in an earlier session."""
    try:
        found = json.loads(path.read_text("utf-8")).get(address, [])
    except (OSError, ValueError, AttributeError):
        return []
    return [one for one in found if isinstance(one, str)]


def remember(path: Path, address: str, chosen: Sequence[str]) -> None:
    """Keep a choice for the next sessions."""
    try:
        kept = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        kept = {}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, json.dumps({**kept, address: list(chosen)}, indent=1) + "\n")
