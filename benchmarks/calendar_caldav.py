"""Two hundred conflicts on a real CalDAV server: decided and written back, and one edited by another client meanwhile.

    python tests/benchmarks/calendar_caldav.py

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
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import caldav

from agentfw_plugins.own_calendar.answers import AnswersGiven
from agentfw_plugins.own_calendar.caldav_source import PASSWORD, CalDavSource
from agentfw_plugins.own_calendar.person_file import PersonFile
from agentfw_plugins.own_calendar.session import Session, Wishes
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


def measure(address: str, folder: Path) -> None:
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
    for line in session.write():
        print(line)

    after = contents(calendar)
    declined = {f"UID:{'b' if number % 2 == 0 else 'a'}{number}" for number in range(CONFLICTS)}
    print(f"conflicts {len(session.outcomes)}")
    others = sum(after[uid] != before[uid] for uid in after.keys() - declined)
    print(f"changed other than what was declined: {others}")
    print(f"the edit is kept: {'SUMMARY:Edited meanwhile' in after['UID:b0']}")
    ours = declined - {"UID:b0"}
    for what, lines in (
        ("gone", [line for uid in ours for line in before[uid] - after[uid]]),
        ("new", [line for uid in ours for line in after[uid] - before[uid]]),
    ):
        print(what, dict(Counter(line.partition(":")[0] for line in lines)))


def main() -> None:
    os.environ[PASSWORD] = "secret"
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        folder = Path(name)
        (folder / "users").write_text("ana:secret\n")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
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
            measure(f"http://127.0.0.1:{port}/", folder)
        finally:
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    main()
