"""A CalDAV server that other programs write to as well, and that can refuse what is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from http.server import ThreadingHTTPServer
from threading import Thread
from xml.sax.saxutils import escape

import pytest
from chat_server import Handler


class CalendarServer(ThreadingHTTPServer):
    """One calendar on a CalDAV server that other programs write to as well, and that can refuse what is written."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Asked)
        self.events: dict[str, str] = {}
        """The text of each event, by its place."""
        self.versions: dict[str, int] = {}
        self.home = self.address.replace("caldav://ana@", "http://")
        """Where it says that the calendars of the user are."""
        self.refuses = 0
        """The status that every change is answered with, if it isn't 0."""
        self.written: Callable[[str], str] = lambda text: text
        """What the server makes of an event that is written: many write it anew in their own way."""
        self.before_write: Callable[[str], None] = lambda place: None
        """Called when a change arrives and before its version is looked at: what others do at the same moment."""

    @property
    def address(self) -> str:
        return f"caldav://ana@127.0.0.1:{self.server_port}/ana/work/"

    def put(self, name: str, event: str) -> str:
        """As another program writes an event."""
        place = f"/ana/work/{name}.ics"
        lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//other//EN", "BEGIN:VEVENT", *event.strip().split("\n")]
        self.save(place, "\r\n".join([*lines, "END:VEVENT", "END:VCALENDAR", ""]))
        return place

    def save(self, place: str, text: str) -> None:
        self.events[place] = self.written(text)
        self.versions[place] = self.versions.get(place, 0) + 1

    def etag(self, place: str) -> str:
        return f'"{self.versions[place]}"'


class _Asked(Handler):
    protocol_version = "HTTP/1.0"
    server: CalendarServer

    def do_PROPFIND(self) -> None:
        kind = "<D:resourcetype><D:collection/><C:calendar/></D:resourcetype><D:displayname>Work</D:displayname>"
        if self.path != "/ana/work/":
            kind = f"<C:calendar-home-set><D:href>{self.server.home}</D:href></C:calendar-home-set>"
        self._several([("/ana/work/", kind)])

    def do_REPORT(self) -> None:
        tagged = "<D:getetag>{}</D:getetag><C:calendar-data>{}</C:calendar-data>"
        events = sorted(self.server.events.items())
        self._several((place, tagged.format(escape(self.server.etag(place)), escape(text))) for place, text in events)

    def do_GET(self) -> None:
        text = self.server.events.get(self.path)
        self._answer(404 if text is None else 200, text or "", self.path if text else "")

    def do_PUT(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.before_write(self.path)
        known = self.server.etag(self.path) if self.path in self.server.events else None
        if self.server.refuses:
            self._answer(self.server.refuses)
        elif self.headers.get("If-Match") != known:
            self._answer(412)
        else:
            self.server.save(self.path, text)
            self._answer(204)

    def do_DELETE(self) -> None:
        if self.headers.get("If-Match") != self.server.etag(self.path):
            self._answer(412)
        else:
            del self.server.events[self.path]
            self._answer(204)

    def _several(self, found: Iterable[tuple[str, str]]) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status = "<D:status>HTTP/1.1 200 OK</D:status>"
        one = f"<D:response><D:href>{{}}</D:href><D:propstat><D:prop>{{}}</D:prop>{status}</D:propstat></D:response>"
        answers = "".join(one.format(place, what) for place, what in found)
        head = '<?xml version="1.0"?><D:multistatus xmlns:D="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav">'
        self._answer(207, f"{head}{answers}</D:multistatus>")

    def _answer(self, status: int, text: str = "", place: str = "") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "text/calendar" if place else "application/xml")
        if place:
            self.send_header("ETag", f"W/{self.server.etag(place)}")  # as nginx says it of what it compresses
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CalendarServer]:
    pytest.importorskip("caldav")
    pytest.importorskip("icalendar")
    monkeypatch.setenv("AGENTFW_CALDAV_PASSWORD", "secret")
    with CalendarServer() as listening:
        Thread(target=listening.serve_forever, daemon=True).start()
        yield listening
        listening.shutdown()
