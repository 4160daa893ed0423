"""Random edits of a second client between sessions, on a file and on real CalDAV servers.

    python plugins/calendar/benchmarks/calendar_edits.py
    python plugins/calendar/benchmarks/calendar_edits.py --decisions 100
    python plugins/calendar/benchmarks/calendar_edits.py --xandikos /path/to/bin/xandikos

In each round a session decides about a new calendar, a second client edits events, a second session decides nothing
new, and everything is undone. It counts decisions that were applied to conflicts of which an event had changed, and
events that aren't what they were after undoing (in a file byte for byte, on a server in what they say), or, where the
second client edited them, that have marks, another answer, time or alarm of the owner than its edit alone would have
left, or lost its edit. What undo says that it can't take back is counted apart. The invitations are as Google, Outlook
and Apple write them.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

import caldav
import httpx
import icalendar

from agentfw_benchmarks import Options, free_port, tell
from agentfw_calendar.deciding.answers import Answer, AnswersGiven, Person, Question
from agentfw_calendar.deciding.person_file import PersonFile
from agentfw_calendar.ics.caldav_source import PASSWORD, CalDavSource
from agentfw_calendar.ics.occurrences import Occurrence
from agentfw_calendar.ics.sources import FileSource, Source
from agentfw_calendar.marking import everything, undo
from agentfw_calendar.session import Session, Wishes
from agentfw_plugins.worlds.calendar.policies import LinearPolicy

FIRST = date(2099, 11, 2)
PAIRS = 12
MARK = "X-AGENTFW-DECLINED"
INVITED = (
    "ATTENDEE;CUTYPE=INDIVIDUAL;ROLE=REQ-PARTICIPANT;PARTSTAT=NEEDS-ACTION;RSVP=TRUE;CN=ana@lab.example;X-NUM-GUESTS=0:"
    "mailto:ana@lab.example",
    'ATTENDEE;ROLE=REQ-PARTICIPANT;PARTSTAT=TENTATIVE;RSVP=TRUE;CN="Costa, Ana":MAILTO:Ana@Lab.example',
    'ATTENDEE;CN="Ana";CUTYPE=INDIVIDUAL;EMAIL="ana@lab.example";PARTSTAT=ACCEPTED:/aOTg3NjU0MzIx/principal/',
)
"""The owner's line, as Google, Outlook and Apple write it."""
ALARM = "BEGIN:VALARM\r\nACTION:DISPLAY\r\nDESCRIPTION:REMINDER\r\nTRIGGER:-PT{minutes}M\r\nEND:VALARM\r\n"
_EVENT = re.compile(r"BEGIN:VEVENT\r\n.*?END:VEVENT\r\n", re.S)


class Place(Protocol):
    """A calendar as a second client sees it: the text of each event, by its id."""

    def fill(self, events: dict[str, str]) -> Source: ...
    def texts(self) -> dict[str, str]: ...
    def edit(self, uid: str, text: str) -> None:
        """Replace an event; an empty text deletes it."""


class File:
    """An .ics file. What was decided is in another, which the second client edits too."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0

    def fill(self, events: dict[str, str]) -> Source:
        self.number += 1
        self.path = self.folder / f"my{self.number}.ics"
        self._write(self.path, events)
        return FileSource(self.path)

    def texts(self) -> dict[str, str]:
        return self._read(self.path)

    def edit(self, uid: str, text: str) -> None:
        self._edit(self.path, uid, text)

    @property
    def decided(self) -> Path:
        return self.path.with_suffix(".decided.ics")

    def _edit(self, path: Path, uid: str, text: str) -> None:
        events = self._read(path)
        self._write(path, {name: text if name == uid else old for name, old in events.items() if name != uid or text})

    @staticmethod
    def _read(path: Path) -> dict[str, str]:
        found: dict[str, str] = {}
        for match in _EVENT.finditer(path.read_bytes().decode()):
            found[uid_of(match[0])] = found.get(uid_of(match[0]), "") + match[0]  # with declined dates of a series
        return found

    @staticmethod
    def _write(path: Path, events: dict[str, str]) -> None:
        head = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nX-WR-TIMEZONE:UTC\r\n"
        path.write_bytes(f"{head}{''.join(events.values())}END:VCALENDAR\r\n".encode())


class Server:
    """A calendar on a CalDAV server."""

    def __init__(self, address: str) -> None:
        self.saved: dict[str, Any] = {}
        self.client = caldav.DAVClient(address, username="ana", password="secret", require_tls=False)  # type: ignore[operator]

    def fill(self, events: dict[str, str]) -> Source:
        self.calendar, self.saved = self.client.principal().make_calendar(), {}
        for uid, event in events.items():
            text = f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:other\r\n{event}END:VCALENDAR\r\n"
            self.saved[uid] = self.calendar.save_event(text)
        return CalDavSource(f"caldav://ana@{str(self.calendar.url).partition('://')[2].rpartition('@')[2]}")

    def texts(self) -> dict[str, str]:
        found = [one.data.replace("\r\n", "\n").replace("\n", "\r\n") for one in self.calendar.events()]
        return {uid_of(text): "".join(_EVENT.findall(text)) for text in found}

    def edit(self, uid: str, text: str) -> None:
        event = self.saved[uid].load()
        if not text:
            event.delete()
            return
        event.data = f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:other\r\n{text}END:VCALENDAR\r\n"
        event.save()


class Skips:
    """A person who decides nothing."""

    is_person = True

    def answer(self, question: Question) -> Answer:
        return Answer("")

    def told(self, question: Question, answer: Answer, declined: Sequence[Occurrence], learned: str) -> None:
        pass


def uid_of(text: str) -> str:
    found = re.search(r"^UID:(.*?)\r?$", text, re.M)
    assert found is not None
    return found[1]


def calendar(chance: random.Random, number: int) -> dict[str, str]:
    """Pairs of events that overlap, a third of them weekly."""
    found = {}
    for pair in range(PAIRS):
        start = datetime(2099, 11, 2, 8) + timedelta(days=pair % 5, hours=2 * (pair // 5) + chance.randrange(2))
        rule = "RRULE:FREQ=WEEKLY;COUNT=3\r\n" if pair % 3 == 0 else ""
        for side in "ab":
            uid = f"{side}{pair}-{number}"
            found[uid] = (
                f"BEGIN:VEVENT\r\nUID:{uid}\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:{start:%Y%m%dT%H%M%S}Z\r\n"
                f"DURATION:PT1H\r\n{rule}SUMMARY:Meeting {uid}\r\nLOCATION:Room 1\r\nSEQUENCE:2\r\nTRANSP:OPAQUE\r\n"
                f"ORGANIZER:mailto:bob@lab.example\r\n{INVITED[pair % len(INVITED)]}\r\n"
                f"ATTENDEE:mailto:bob@lab.example\r\n{ALARM.format(minutes=5 + pair)}END:VEVENT\r\n"
            )
            start += timedelta(minutes=30)
    return found


def edited(text: str, chance: random.Random) -> str:
    """An event after a random edit of another client; empty if it was deleted."""
    kind = chance.choice(("title", "time", "place", "people", "words", "deleted", "longer", "answer"))
    number, text = chance.randrange(10**6), text.replace("\r\n ", "")
    if kind == "deleted":
        return ""
    if kind == "title":
        return re.sub(r"SUMMARY:[^\r]*", f"SUMMARY:Edited {number}", text)
    if kind == "time":
        return re.sub(r"(DTSTART:\d{8}T\d\d)\d\d", rf"\g<1>{chance.choice((10, 20, 40))}", text, count=1)
    if kind == "place":
        return re.sub(r"LOCATION:[^\r]*", f"LOCATION:Place {number}", text)
    if kind == "people":
        return re.sub("(ORGANIZER)", rf"ATTENDEE:mailto:p{number}@lab.example\r\n\1", text, count=1)
    if kind == "answer":
        return re.sub("(ATTENDEE[^\r]*PARTSTAT=)[A-Z-]+", r"\1ACCEPTED", text)
    if kind == "longer":
        return re.sub(r"DURATION:PT[^\r]*|DTEND:[^\r]*", f"DURATION:PT{31 + number % 29}M", text, count=1)
    return re.sub("(ORGANIZER)", rf"X-EDITED:{number}\r\n\1", text, count=1)


def essence(text: str) -> frozenset[str]:
    """What a decision depends on, read from the text without the code that is measured."""
    if not text:
        return frozenset()
    first = _EVENT.findall(text)[0].replace("\r\n ", "")
    names = ("SUMMARY", "DTSTART", "DTEND", "DURATION", "LOCATION", "RRULE")
    lines = [line for line in first.split("\r\n") if line.split(":")[0].split(";")[0] in names]
    people = re.findall(r"^ATTENDEE[^\r]*mailto:([^\r]*)", first, re.M)
    return frozenset((*lines, *people))


def meaning(text: str) -> list[Any]:
    """What a calendar says, read by another library: servers fold, sort and spell in their own way."""
    found = []
    for event in icalendar.Calendar.from_ical(f"BEGIN:VCALENDAR\r\n{text}END:VCALENDAR\r\n").walk("VEVENT"):
        said = []
        for name, value in event.property_items(recursive=True, sorted=True):
            if name not in ("DTSTAMP", "LAST-MODIFIED", "CREATED", "SEQUENCE"):
                given = {key: str(text).casefold() for key, text in getattr(value, "params", {}).items()}
                given = {key: text for key, text in given.items() if (key, text) != ("PARTSTAT", "needs-action")}
                written = value.to_ical() if hasattr(value, "to_ical") else str(value).encode()
                said.append((name, sorted(given.items()), written.decode().casefold()))
        found.append(sorted(map(repr, said)))
    return sorted(found)


def own(text: str, meant: str) -> bool:
    """Whether the owner's answer, times and alarms are as they are meant to be, on each date of a series."""
    found, series = (_own(some) for some in (text, meant))
    dates = [one for name, one in found if name]
    return [one for name, one in found if not name] == [one for name, one in series if not name] and all(
        one[1:] == series[0][1][1:] for one in dates
    )


def _own(text: str) -> list[tuple[str, list[str]]]:
    found = []
    for event in icalendar.Calendar.from_ical(f"BEGIN:VCALENDAR\r\n{text}END:VCALENDAR\r\n").walk("VEVENT"):
        given = event.get("ATTENDEE", [])
        given = given if isinstance(given, list) else [given]
        answers = [one.params.get("PARTSTAT", "") for one in given if "ana" in f"{one} {one.params}".lower()]
        alarms = [alarm["TRIGGER"].to_ical().decode() for alarm in event.walk("VALARM")]
        times = [event[name].to_ical().decode() for name in ("DTSTART", "DURATION", "DTEND") if name in event]
        said = [" ".join(times), str(event.get("TRANSP", "OPAQUE")), *sorted(answers), *sorted(alarms)]
        found.append((event["RECURRENCE-ID"].to_ical().decode() if "RECURRENCE-ID" in event else "", said))
    return found


def session(source: Source, known: PersonFile, person: Person) -> Session:
    found = Session.open([source], Wishes(since=FIRST, owner="ana@lab.example", zone="UTC"))
    asyncio.run(found.play(LinearPolicy(), person, known))
    return found


def one_round(place: Place, hub: Path, chance: random.Random, number: int, edits: int) -> dict[str, int]:
    counts = dict.fromkeys(("edits", "decided", "held", "wrongly applied", "asked though unchanged"), 0)
    counts |= dict.fromkeys(
        ("undone", "not undone, and said", "not restored", "not as meant", "edit lost", "mark left"), 0
    )
    source = place.fill(calendar(chance, number))
    before = place.texts()
    with PersonFile(hub, "ana@lab.example") as known:
        answers = [chance.choice(("A", "b", "A series", "b always", "both", "s")) for _ in range(4 * PAIRS)]
        answers = [one if one != "A series" else chance.choice(("A", "A always")) for one in answers]
        first = session(source, known, AnswersGiven("\n".join(answers), "answers"))
        first.write(known)
        decided = [outcome for outcome in first.outcomes if outcome.kept is not None or outcome.both]
        counts["decided"] = len(decided)

    def edit(there: Mapping[str, str], change: Callable[[str, str], None]) -> tuple[dict[str, str], dict[str, str]]:
        """Edit some events. Returns them after that, and what they would be if nothing had been declined."""
        changes, meant = {}, {}
        for uid in chance.sample(sorted(there), min(edits, len(there))):
            seed = f"{number} {uid}"
            changes[uid], meant[uid] = (edited(some[uid], random.Random(seed)) for some in (there, before))
            change(uid, changes[uid])
            counts["edits"] += 1
        return changes, meant

    changes, meant = edit(place.texts(), place.edit)
    between = place.texts()
    with PersonFile(hub, "ana@lab.example") as known:
        second = session(source, known, Skips())
        same = {uid for uid in before if essence(between.get(uid, "")) == essence(before[uid])}
        for outcome in second.outcomes:
            uids = {each.one.entry.uid for each in outcome.question.candidates}
            if outcome.known:
                counts["held"] += 1
                counts["wrongly applied"] += not uids <= same
            else:
                was = [one for one in decided if {each.one.key for each in one.question.candidates} == {
                    each.one.key for each in outcome.question.candidates
                }]  # fmt: skip
                counts["asked though unchanged"] += bool(was) and uids <= same
        second.write(known)
        newly = {uid for uid, text in place.texts().items() if MARK in text and MARK not in between[uid]}
        counts["wrongly applied"] += len(newly - same)

        if isinstance(place, File) and place.decided.exists():
            # What is undone is in the other file, and edited there.
            decided_file, between = place.decided, place.texts()
            there = place._read(decided_file)
            before = {uid: between[uid] for uid in there}
            changes, meant = edit(there, lambda uid, text: place._edit(decided_file, uid, text))
        undone = undo(known, everything(known))
    said = {noted.uid for noted in (*undone.gone, *undone.failed)}
    counts["undone"], counts["not undone, and said"] = len(undone.restored), len(undone.gone) + len(undone.failed)
    after = place._read(place.decided) if isinstance(place, File) and place.decided.exists() else place.texts()
    for uid, old in before.items():
        text = after.get(uid, "")
        counts["mark left"] += MARK in text or (uid not in said and ("TRANSPARENT" in text or "DECLINED" in text))
        if uid not in changes:
            counts["not restored"] += text != old if isinstance(place, File) else meaning(text) != meaning(old)
        else:
            counts["not as meant"] += uid not in said and not own(text, meant[uid])
            counts["edit lost"] += essence(text) != essence(changes[uid]) or ("X-EDITED" in changes[uid]) > (
                "X-EDITED" in text
            )
    return counts


def measure(decisions: int, seed: int, xandikos: str) -> dict[str, dict[str, int]]:
    result: dict[str, dict[str, int]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places: dict[str, Place] = {"file": File(folder)}
        users = folder / "users"
        users.write_text("ana:secret\n")
        words = ["--server-hosts=127.0.0.1:{port}", f"--storage-filesystem-folder={folder / 'data'}"]
        words += ["--auth-type=htpasswd", f"--auth-htpasswd-filename={users}", "--auth-htpasswd-encryption=plain"]
        command = [sys.executable, "-m", "radicale", "--config", "", "--logging-level=error", *words]
        radicale = stack.enter_context(serving(command, "/"))
        places["radicale"] = Server(radicale)
        places["respelling"] = Server(stack.enter_context(respelling(radicale)))
        if xandikos:
            command = [xandikos, "serve", "--directory", str(folder / "git"), "--defaults", "--port", "{port}"]
            command += ["--current-user-principal", "/ana/", "--listen-address", "127.0.0.1"]
            places["xandikos"] = Server(stack.enter_context(serving(command, "/ana/")))
        for name, place in places.items():
            chance, total, number = random.Random(seed), dict[str, int](), 0
            while total.get("decided", 0) < decisions:
                number += 1
                hub = folder / f"{name}{number}.db"
                counts = one_round(place, hub, chance, number, 12)
                total = {key: total.get(key, 0) + count for key, count in counts.items()}
            result[name] = {"rounds": number, **total}
    return result


@contextmanager
def serving(command: Sequence[str], path: str) -> Iterator[str]:
    """The address of a server of our own, for the user ana."""
    port = free_port()
    server = subprocess.Popen([word.replace("{port}", str(port)) for word in command], stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}{path}"
    finally:
        server.terminate()
        server.wait(30)


def respelled(text: str) -> str:
    """What servers make of an event: lines and parameters in another order, folded elsewhere, mail in lower case."""
    lines = []
    for line in icalendar.Calendar.from_ical(text).to_ical(sorted=True).decode().replace("\r\n ", "").splitlines():
        head, colon, value = line.partition(":")
        if line.startswith(("ATTENDEE", "ORGANIZER")) and '"' not in line:
            name, *given = head.split(";")
            head, value = ";".join([name, *sorted(given, reverse=True)]), value.lower()
        lines.append("\r\n ".join(re.findall(".{1,40}", f"{head}{colon}{value}")))
    return "\r\n".join([*lines, ""])


class _Respelling(BaseHTTPRequestHandler):
    """Passes everything on, and writes events as other servers than that one do."""

    behind = ""
    protocol_version = "HTTP/1.1"

    def passed_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.command == "PUT":
            body = respelled(body.decode()).encode()
        headers = {name: text for name, text in self.headers.items() if name.lower() not in ("host", "content-length")}
        with httpx.Client(timeout=60) as client:
            reply = client.request(self.command, f"{self.behind}{self.path}", content=body, headers=headers)
        self.send_response(reply.status_code)
        for name, text in reply.headers.items():
            if name.lower() not in ("content-length", "content-encoding", "transfer-encoding", "connection"):
                self.send_header(name, text)
        self.send_header("Content-Length", str(len(reply.content)))
        self.end_headers()
        self.wfile.write(reply.content)

    do_GET = do_PUT = do_DELETE = do_OPTIONS = do_PROPFIND = do_REPORT = do_MKCALENDAR = do_PROPPATCH = passed_on

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def respelling(address: str) -> Iterator[str]:
    """The address of a server that re-serialises, as Nextcloud and Baikal do, before another one."""
    handler = type("Before", (_Respelling,), {"behind": address.rstrip("/")})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__)
    parser.add_argument("--decisions", type=int, default=2000, help="number of decisions in each place")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--xandikos", default=shutil.which("xandikos") or "", help="executable of a second server")
    options = parser.parse_args(arguments)
    os.environ[PASSWORD] = "secret"
    return tell(measure(options.decisions, options.seed, options.xandikos), options.json)


if __name__ == "__main__":
    main()
