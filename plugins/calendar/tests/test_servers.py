"""Calendars on servers: a real Radicale, where other clients edit too, and a published file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from chat_server import Handler, listening
from waiting import free_port, listens, until

from agentfw.errors import EndpointError, UsageError
from agentfw_calendar.ics.caldav_source import PASSWORD, CalDavBusy, CalDavSource, calendars_at

from .events import Calendar

caldav = pytest.importorskip("caldav")
pytest.importorskip("radicale")

DAY = date(2026, 11, 23)


def event(uid: str, day: int, hour: str, title: str) -> str:
    return (
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//other//client//EN\r\nBEGIN:VEVENT\r\n"
        f"UID:{uid}\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:202611{day}T{hour}00Z\r\nDURATION:PT1H\r\nSUMMARY:{title}\r\n"
        "DESCRIPTION:Grüße\\, 👩‍⚕️ and a line that is long enough to be folded by every program that writes it\r\n"
        "X-OF-ANOTHER:kept\r\nORGANIZER:mailto:bob@lab.example\r\nATTENDEE:mailto:ana@lab.example\r\n"
        "END:VEVENT\r\nEND:VCALENDAR\r\n"
    )


@pytest.fixture(scope="module")
def radicale(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a Radicale with one user."""
    folder = tmp_path_factory.mktemp("radicale")
    (folder / "users").write_text("ana:secret\nlena:secret\n")
    port = free_port()
    words = [f"--server-hosts=127.0.0.1:{port}", f"--storage-filesystem-folder={folder / 'data'}"]
    words += ["--auth-type=htpasswd", f"--auth-htpasswd-filename={folder / 'users'}"]
    words += ["--auth-htpasswd-encryption=plain", "--logging-level=error", "--auth-delay=0"]
    server = subprocess.Popen([sys.executable, "-m", "radicale", "--config", "", *words])
    until(lambda: listens(port))
    yield port
    server.terminate()
    server.wait(300)


@pytest.fixture
def other(radicale: int, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A new calendar as another client sees it."""
    monkeypatch.setenv(PASSWORD, "secret")
    address = f"http://127.0.0.1:{radicale}/"
    with caldav.DAVClient(address, username="ana", password="secret", require_tls=False) as client:
        yield client.principal().make_calendar(name=request.node.name)


def source_of(calendar: Any) -> CalDavSource:
    return CalDavSource(str(calendar.url).replace("http://", "caldav://ana@").replace("ana@ana:secret@", "ana@"))


def test_a_server_tells_when_others_are_busy_no_more(other: Any, tmp_path: Path, calendar_session: Calendar) -> None:
    other.save_event(event("secret", 23, "1000", "Secret").replace("202611", "209911"))
    call = [event(name, 23, "0900", name).replace("202611", "209911") for name in ("kept", "call")]
    (tmp_path / "my.ics").write_text("".join(call))
    address = f"caldav://ana@{source_of(other).name}"
    lines = [line for part in CalDavBusy(address).read(date(2099, 11, 23), 7) for line in part.lines.physical]

    words = ("my.ics", "--zone", "UTC", "--list", "--busy", f"bob@lab.example={address}")
    code, shown, _ = calendar_session("decide", *words, since="2099-11-23")

    assert code == 0
    assert "Monday, 23 November, 11:00 instead?" in shown
    assert "(write to bob@lab.example, who is free then)" in shown
    assert not any(b"Secret" in line for line in lines)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("caldav://ana@dav.example/c/", "unencrypted"),
        ("caldavs://ana:pw@dav.example/c/", "must not contain a password"),
    ],
)
def test_a_password_is_neither_in_an_address_nor_sent_in_the_clear(address: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CalDavSource(address)


def test_a_published_calendar_is_read_from_its_address(tmp_path: Path, calendar_session: Calendar) -> None:
    data = (event("a", 23, "0900", "Review") + event("b", 23, "0930", "Call")).encode()

    class Published(Handler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            found = self.path in ("/v1/private-token/basic.ics", "/v1/private-token")
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(data if found else b"")

    with listening(Published) as address:
        places = [f"{address}/private-token/{name}.ics" for name in ("basic", "gone")]
        said, gone = (calendar_session("decide", place, "--yes", "--json") for place in places)
        of_icloud = calendar_session("decide", f"{address}/private-token", "--yes", "--json")

    assert (said.json["outputs"], of_icloud.json["outputs"]) == (["basic.decided.ics"], ["calendar.decided.ics"])
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("hub.db*"))
    assert "private-token" not in f"{said.out}{of_icloud.out}{kept!r}", "who knows it can read the calendar"
    assert (tmp_path / "basic.decided.ics").read_text().count("X-AGENTFW-DECLINED") == 1
    assert gone.code != 0
    assert "HTTP 404" in gone.err


def test_calendars_are_found_or_it_is_said_why_not(other: Any, radicale: int, monkeypatch: pytest.MonkeyPatch) -> None:
    own = f"caldav://ana@{source_of(other).name}"
    for path in ("/", "/ana/"):
        found = calendars_at(CalDavSource(f"caldav://ana@127.0.0.1:{radicale}{path}"))
        assert own in [one.address for one in found]
    found = calendars_at(CalDavSource(own))
    assert [one.address for one in found] == [own], "a calendar's own address is this calendar"

    with pytest.raises(EndpointError, match="there is no calendar at"):
        calendars_at(CalDavSource(f"caldav://lena@127.0.0.1:{radicale}/lena/"))
    with pytest.raises(EndpointError, match="is no CalDAV calendar: HTTP 404"):
        CalDavSource(f"{own}nothing/").read(DAY, 7)
    monkeypatch.setenv(PASSWORD, "wrong")
    with pytest.raises(EndpointError, match="refuses the user ana with this password"):
        source_of(other).read(DAY, 7)


def test_calendars_are_chosen_from_a_list_once(
    other: Any, radicale: int, monkeypatch: pytest.MonkeyPatch, calendar_session: Calendar
) -> None:
    other.save_event(event("a", 23, "0900", "Review"))
    other.save_event(event("b", 23, "0930", "Call"))
    address = f"http://127.0.0.1:{radicale}/"
    with caldav.DAVClient(address, username="ana", password="secret", require_tls=False) as client:
        client.principal().make_calendar(name="Another")
    account = f"caldav://ana@127.0.0.1:{radicale}/ana/"
    found = [one.address for one in calendars_at(CalDavSource(account))]
    number = found.index(f"caldav://ana@{source_of(other).name}") + 1

    ends = []
    for at_terminal in (False, True, False):
        monkeypatch.setattr("agentfw_calendar.session_command._at_terminal", lambda said=at_terminal: said)
        ends.append(calendar_session("list", account, "--json", typed=f"{number}\n"))

    refused, asked, later = ends
    assert refused.code == 2
    assert all(one in refused.err for one in found), "whoever can't be asked is told the addresses"
    assert "which calendars?" in asked.err
    for said in (asked, later):
        assert [one["title"] for one in said.json["conflicts"][0]["events"]] == ["Review", "Call"]

    before = sorted(one.data for one in other.events())
    decided = calendar_session("decide", account, "--me", "ana@lab.example", "--yes", "--json").json
    assert (decided["declined"], "PARTSTAT=DECLINED" in "".join(one.data for one in other.events())) == (1, True)
    assert len(calendar_session("undo", "--json").json["restored"]) == 1
    assert sorted(one.data for one in other.events()) == before
