"""Two hundred conflicts on a real CalDAV server: decided and written back, and one edited by another client meanwhile.

    python plugins/calendar/benchmarks/calendar_caldav.py

It starts a Radicale of its own and prints what was written, what wasn't, and which lines changed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import caldav

from agentfw_benchmarks import Options, tell
from agentfw_calendar.answers import AnswersGiven
from agentfw_calendar.caldav_source import PASSWORD, CalDavSource
from agentfw_calendar.person_file import PersonFile
from agentfw_calendar.session import Session, Wishes
from agentfw_calendar.texts import Texts
from agentfw_plugins.worlds.calendar.policies import LinearPolicy

CONFLICTS = 200
FIRST = datetime(2026, 11, 23)


def event(uid: str, start: datetime) -> str:
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//other//client//EN", "BEGIN:VEVENT", f"UID:{uid}"]
    lines += ["DTSTAMP:20260101T000000Z", f"DTSTART:{start:%Y%m%dT%H%M%SZ}", "DURATION:PT1H", f"SUMMARY:Meeting {uid}"]
    lines += ["X-OTHER:kept", "ORGANIZER:mailto:bob@lab.example", "ATTENDEE:mailto:ana@lab.example"]
    return "\r\n".join([*lines, "END:VEVENT", "END:VCALENDAR", ""])


def contents(calendar: Any) -> dict[str, set[str]]:
    """The lines of each event, as another client reads them."""
    texts = [found.data.replace("\r\n", "\n").replace("\n ", "").splitlines() for found in calendar.events()]
    return {next(line for line in lines if line.startswith("UID:")): set(lines) for lines in texts}


def measure(address: str, folder: Path) -> dict[str, Any]:
    client = caldav.DAVClient(address, username="ana", password="secret", require_tls=False)  # type: ignore[operator]
    calendar = client.principal().make_calendar(name="work")
    for number in range(CONFLICTS):
        start = FIRST + timedelta(hours=3 * number)
        calendar.save_event(event(f"a{number}", start))
        calendar.save_event(event(f"b{number}", start + timedelta(minutes=30)))
    before = contents(calendar)

    source = CalDavSource(f"caldav://ana@{str(calendar.url).partition('://')[2].rpartition('@')[2]}")
    session = Session.open([source], Wishes(28, date(2026, 11, 23), owner="ana@lab.example", zone="UTC"))
    with PersonFile(folder / "hub.db", session.person) as known:
        person = AnswersGiven("A\nb\n" * (CONFLICTS // 2), "answers")
        asyncio.run(session.play(LinearPolicy(), person, known))
        edited = calendar.event_by_uid("b0")
        edited.data = edited.data.replace("SUMMARY:Meeting b0", "SUMMARY:Edited meanwhile")
        edited.save()
        written = [Texts.of().say(told) for told in session.write(known)]

    after = contents(calendar)
    declined = {f"UID:{'b' if number % 2 == 0 else 'a'}{number}" for number in range(CONFLICTS)}
    ours = declined - {"UID:b0"}
    gone, new = ([line for uid in ours for line in a[uid] - b[uid]] for a, b in ((before, after), (after, before)))
    return {
        "written": written,
        "conflicts": len(session.outcomes),
        "changed other than what was declined": sum(after[uid] != before[uid] for uid in after.keys() - declined),
        "the edit is kept": "SUMMARY:Edited meanwhile" in after["UID:b0"],
        "gone": dict(Counter(line.partition(":")[0] for line in gone)),
        "new": dict(Counter(line.partition(":")[0] for line in new)),
    }


@contextmanager
def radicale(folder: Path) -> Iterator[str]:
    """The address of a server of our own, for the user ana."""
    (folder / "users").write_text("ana:secret\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [f"--server-hosts=127.0.0.1:{port}", f"--storage-filesystem-folder={folder / 'data'}"]
    words += ["--auth-type=htpasswd", f"--auth-htpasswd-filename={folder / 'users'}"]
    words += ["--auth-htpasswd-encryption=plain", "--logging-level=error"]
    server = subprocess.Popen([sys.executable, "-m", "radicale", "--config", "", *words], stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        server.wait(30)


def show(result: dict[str, Any]) -> None:
    for line in result["written"]:
        print(line)
    for name, value in result.items():
        if name != "written":
            print(f"{name}: {value}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__).parse_args(arguments)
    os.environ[PASSWORD] = "secret"
    with tempfile.TemporaryDirectory() as name, radicale(Path(name)) as address:
        result = measure(address, Path(name))
    return tell(result, options.json, show)


if __name__ == "__main__":
    main()
