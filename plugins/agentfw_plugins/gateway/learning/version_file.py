"""The versions of a gateway, and which of them is served: one row in a SQLite file of the run's folder.

Each change is one transaction. So whatever is killed at whatever moment, the row says what is served, and the adapter
that it names is complete: an adapter is in its place before the row names it.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from agentfw import Episode
from agentfw.errors import StorageError, UsageError
from agentfw.runs import make_folder, read_sessions

TRAINER = "AGENTFW_TRAINER"
"""The variable by which a trainer is told of versions that aren't in its run. An address may have a password, so it is
no word of the command."""
_WAIT = 30.0  # seconds to wait for another process that changes the file

SERVED, CANARY, REJECTED = "served", "canary", "rejected"
ROLLED_BACK, WITHDRAWN, WORSE = "rolled back", "withdrawn", "worse as a canary"
REPLACED, DROPPED = "replaced", "not better any more"
"""Of versions of single users."""


@dataclass(slots=True)
class Version:
    number: int
    at: float
    """When it was made, in seconds since 1970."""
    outcome: str
    before: int
    """The version that it was compared with. 0 is the policy as it came."""
    adapter: str = ""
    """Below the folder of versions. Empty if it was never served."""
    sessions: list[str] = field(default_factory=list)
    """Whose feedback it learned from."""
    ratings: int = 0
    test: dict[str, float] = field(default_factory=dict)
    why: str = ""
    start: int = 0
    """The version that its training went on from, with all that this one had learned."""
    user: str = ""
    """Whose own version it is. Empty: everybody's."""

    @property
    def name(self) -> str:
        return named(self.number, self.user)


@dataclass(frozen=True, slots=True)
class Removal:
    """Feedback that is left out: what all of these say, where they say something."""

    user: str = ""
    session: str = ""
    since: float | None = None
    until: float | None = None

    def holds(self, user: str, session: str, at: float) -> bool:
        return (
            self.user in ("", user)
            and self.session in ("", session)
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
        )


class Wished(NamedTuple):
    """How a gateway learns. These are fields of its state."""

    every: int
    share: float
    metric: str = ""
    owns: bool = False


@dataclass(slots=True)
class State:
    versions: list[Version] = field(default_factory=list)
    served: int = 0
    canary: int = 0
    """The version that a share of the sessions gets. 0: none."""
    share: float = 0.0
    every: int = 40
    """How many new ratings a new version takes."""
    seen: float = 0.0
    """The time of the newest rating that was learned from."""
    rebuild: bool = False
    """Whether feedback was taken out since."""
    removals: list[Removal] = field(default_factory=list)
    said: str = ""
    """What came of the last attempt."""
    metric: str = ""
    """The feedback that versions learn from, as `Metric.read` reads it."""
    owns: bool = False
    """Whether users get a version of their own where it is better."""
    due: bool = False
    """Whether own versions are to be made, or tested again: for the others, a version was tried or has changed."""
    tried: dict[str, float] = field(default_factory=dict)
    """The time of the newest rating that an own version was last made from, by user."""

    @property
    def own(self) -> dict[str, Version]:
        return {one.user: one for one in self.versions if one.user and one.outcome == SERVED}

    @property
    def since(self) -> float:
        """Ratings that were given later count: for the trial of the canary, or else for the next version."""
        return self.version(self.canary).at if self.canary else self.seen

    @property
    def rebuilds(self) -> bool:
        """Whether there is something to do without new feedback. A trial ends first."""
        return (self.rebuild or self.due) and not self.canary

    @property
    def next_number(self) -> int:
        return max((one.number for one in self.versions), default=0) + 1

    def version(self, number: int) -> Version:
        return next(one for one in self.versions if one.number == number)

    def for_session(self, session: str) -> int:
        """The version that a session gets. It is the same as long as the canary is."""
        if not self.canary:
            return self.served
        draw = int.from_bytes(blake2b(f"{self.canary} {session}".encode(), digest_size=8).digest())
        return self.canary if draw < self.share * 2**64 else self.served

    def roll_back(self) -> tuple[int, int]:
        """Take the canary back, or else the served version. Returns it, and the version that is served now."""
        taken = self.canary or self.served
        if not taken:
            raise UsageError("the policy is served as it came: there is nothing to roll back")
        self._take(self.version(taken), ROLLED_BACK)
        return taken, self.served

    def remove(self, removal: Removal, sessions: set[str]) -> list[Version]:
        """Leave feedback out. Versions that learned from these sessions are withdrawn, and returned.

        So are versions that went on from one of them.
        """
        self.removals.append(removal)
        learned = list[Version]()
        for one in self.versions:
            if one.adapter and (sessions & set(one.sessions) or one.start in {each.number for each in learned}):
                learned.append(one)
        for one in reversed(learned):
            self._take(one, WITHDRAWN)
        self.rebuild = self.rebuild or bool(sessions)
        return learned

    def judge(self, *, worse: bool, why: str) -> None:
        canary = self.version(self.canary)
        canary.why = why
        if worse:
            self._take(canary, WORSE)
        else:
            canary.outcome, self.served, self.canary = SERVED, canary.number, 0
        self.look_at_own()

    def look_at_own(self) -> None:
        """Let the trainer make versions of single users, and test those that there are against what is served now."""
        self.due = self.owns or bool(self.own)

    def _take(self, version: Version, outcome: str) -> None:
        went_on = [one for one in self.versions if one.user and one.start == version.number and one.outcome == SERVED]
        for one in (version, *went_on):  # these have all that it had learned
            one.outcome = outcome
            self.tried.pop(one.user, None)
        self.look_at_own()
        if self.canary == version.number:
            self.canary = 0
        while self.served and self.version(self.served).outcome != SERVED:
            self.served = self.version(self.served).before


def named(number: int, user: str = "") -> str:
    """What records and headers call a version.

    >>> named(3), named(5, "ana"), named(6, "Ana Gómez")
    ('v3', 'v5+ana', 'v6+Ana%20G%C3%B3mez')
    """
    return f"v{number}+{quote(user, safe='', errors='replace')}" if user else f"v{number}"


class VersionFile:
    def __init__(self, run: Path) -> None:
        self.run, self.folder = run, run / "learning"
        self.path = self.folder / "versions.db"
        self._content_read, self._read = "", State()

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def create(self) -> None:
        make_folder(self.folder)
        self.path.touch(mode=0o600)
        with self._open() as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS state (id INTEGER PRIMARY KEY, content TEXT NOT NULL)")
            connection.execute("INSERT OR IGNORE INTO state VALUES (1, ?)", (written(State()),))

    def read(self) -> State:
        """The state as it is now, which isn't to be changed: whoever reads next may get the same object."""
        with self._open() as connection:
            [content] = connection.execute("SELECT content FROM state").fetchone()
        if content != self._content_read:  # with thousands of versions, parsing them twice a second costs too much
            self._content_read, self._read = content, state_of(json.loads(content))
        return self._read

    @contextmanager
    def change(self) -> Iterator[State]:
        """Change the state as it is now. Nothing is changed if the block raises."""
        with self._open() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            [content] = connection.execute("SELECT content FROM state").fetchone()
            state = state_of(json.loads(content))
            yield state
            connection.execute("UPDATE state SET content = ? WHERE id = 1", (written(state),))

    def adapter(self, version: Version) -> Path:
        return self.folder / "versions" / version.adapter

    def keep(self, version: Version, made: Path) -> None:
        make_folder(self.adapter(version).parent)
        made.rename(self.adapter(version))

    def episodes(self) -> Iterable[Episode]:
        return read_sessions(self.run)

    def drop(self, numbers: Iterable[int]) -> None:
        """Delete what others could fetch of these versions."""

    def delete(self, versions: Iterable[Version]) -> None:
        """Delete the adapters of these versions that are in this run."""
        for folder in {one.adapter.partition("/")[0] for one in versions if one.adapter}:
            shutil.rmtree(self.folder / "versions" / folder, ignore_errors=True)

    def clear(self, state: State) -> None:
        """Delete what a killed trainer left behind, and adapters that were forgotten."""
        shutil.rmtree(self.folder / "training", ignore_errors=True)
        known = {one.adapter.partition("/")[0] for one in state.versions}
        for folder in self.folder.glob("versions/*"):
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether no trainer works on the run meanwhile. SQLite's lock ends with the process, however that ends."""
        path = self.folder / "trainer.db"
        path.touch(mode=0o600)
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                yield False
                return
            yield True

    # What differs where several gateways have the same versions (`shared_versions`)

    def fetch(self, version: Version) -> Path:
        """The adapter of a version, which another gateway may have made."""
        return self.adapter(version)

    def lead(self) -> bool:
        """Whether this gateway is the one that trains. Asked now and then, it stays that."""
        return True

    def heard_elsewhere(self, own: int) -> int:
        """Tell the others how much feedback came in here since the last call. Returns how much came in there."""
        return 0

    def environment(self) -> dict[str, str]:
        """What a trainer is told about where the versions are."""
        return {}

    def close(self) -> None:
        """Let another gateway train."""

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=_WAIT, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA secure_delete = ON")  # forgotten names are overwritten
                yield connection
        except sqlite3.Error as error:
            words = f"the versions in {self.path} can't be used: {error}"
            raise StorageError(words, fix="free disk space, or restore the file") from error


def written(state: State) -> str:
    return json.dumps(asdict(state))


def state_of(values: dict[str, Any]) -> State:
    state = State(**values)
    versions = [Version(**one) for one in values["versions"]]
    return replace(state, versions=versions, removals=[Removal(**one) for one in values["removals"]])
