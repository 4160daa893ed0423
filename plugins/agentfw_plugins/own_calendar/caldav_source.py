"""A calendar on a CalDAV server, such as Nextcloud, Fastmail, iCloud or Radicale: read, and written back in place.

    source = CalDavSource("caldavs://ana@dav.example/ana/work/")
    parts = source.read(date.today(), 28)
    source.write([(parts[0], data)])

An edit by another client is never overwritten. Each event is written with the ETag that it was read with (If-Match). If
the server has another version by now, that version stays, and the event is reported.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date, timedelta
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from agentfw.errors import EndpointError, MissingExtraError, UsageError

from .ics_lines import FileLines
from .sources import Part

__all__ = ["PASSWORD", "CalDavBusy", "CalDavSource"]

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
            raise MissingExtraError("reading calendars of a server", "caldav", module="caldav")
        parts = urlsplit(address)
        if parts.password:
            raise UsageError(
                "the address of a calendar must not contain a password", fix=f"set the environment variable {PASSWORD}"
            )
        secure = parts.scheme == "caldavs"
        if not secure and parts.hostname not in _LOCAL:
            raise UsageError(f"{parts.hostname} would get the password unencrypted", fix="use caldavs://")
        host = parts.netloc.rpartition("@")[2]
        self._base = f"http{'s' if secure else ''}://{host}{parts.path.rstrip('/')}/"
        self._user = unquote(parts.username or "")
        self.name = f"{host}{parts.path}"
        self._etags: dict[Part, str] = {}

    def read(self, since: date, days: int) -> Sequence[Part]:
        reply = self._reported(_QUERY, since, days)
        if reply.status != 207 or reply.tree is None:
            raise EndpointError(
                f"{self.name} is no CalDAV calendar: HTTP {reply.status}",
                fix="pass the address of one calendar, not of the server; the settings of most services show it",
            )
        for found in reply.tree.iter(f"{_DAV}response"):
            href, etag = found.findtext(f"{_DAV}href"), found.findtext(f".//{_DAV}getetag")
            text = found.findtext(f".//{_CALDAV}calendar-data")
            if href and text:
                # XML makes every line end LF; iCalendar requires CRLF.
                lines = FileLines(text.replace("\r\n", "\n").replace("\n", "\r\n").encode())
                part = Part(self, urljoin(self._base, href), lines)
                self._etags[part] = etag or ""
        return list(self._etags) or [Part(self, self._base, FileLines(b""))]

    def write(self, changed: Sequence[tuple[Part, bytes]]) -> list[str]:
        written, changed_meanwhile = 0, 0
        for part, data in changed:
            headers = {"Content-Type": "text/calendar; charset=utf-8", "If-Match": self._etags[part] or '""'}
            status = self._asked("PUT", part.name, data.decode(), headers).status
            if status in (404, 409, 412):
                changed_meanwhile += 1
            elif status not in (200, 201, 204):
                raise EndpointError(
                    f"{self.name} doesn't take the change of {part.name}: HTTP {status}; {written} events are written",
                    fix="check that the calendar isn't read-only, and run the same command again to go on",
                )
            else:
                written += 1
        found = [f"{self.name}, {written} event{'s' if written != 1 else ''}"] if written else []
        if changed_meanwhile:
            found.append(f"{changed_meanwhile} not written to {self.name}, as somebody changed them meanwhile")
        return found

    def _reported(self, query: str, since: date, days: int) -> Any:
        try:
            body = query.format(since=since - _MARGIN, until=since + timedelta(days=days) + _MARGIN)
        except OverflowError:
            raise UsageError(f"{days} days from {since} go beyond the year 9999", fix="choose another --from") from None
        headers = {"Depth": "1", "Content-Type": "application/xml; charset=utf-8"}
        return self._asked("REPORT", self._base, body, headers)

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
            self._base,
            username=self._user or None,
            password=os.environ.get(PASSWORD),
            auth_type="basic" if self._user else None,
            timeout=60,
            enable_rfc6764=False,
            require_tls=False,  # an unencrypted address is only allowed on this machine
        )


class CalDavBusy(CalDavSource):
    """When the owner of a calendar is busy. The server is asked for nothing else, so it may hide the events."""

    def read(self, since: date, days: int) -> Sequence[Part]:
        reply = self._reported(_BUSY_QUERY, since, days)
        if reply.status != 200 or "BEGIN:VFREEBUSY" not in reply.raw:
            raise EndpointError(
                f"{self.name} doesn't tell when its owner is busy: HTTP {reply.status}",
                fix="ask the owner to share free/busy times, or pass their calendar as a file",
            )
        return [Part(self, self._base, FileLines(reply.raw.encode()))]
