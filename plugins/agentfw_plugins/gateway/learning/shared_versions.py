"""The versions of gateways that share their sessions: one row in the database of the sessions, and the adapters there.

One of the gateways trains at a time: the one that has the lease. A gateway that is killed loses it after `LEASE`
seconds, and what its trainer makes afterwards is refused. All gateways serve what the row names, from copies of the
adapters in their runs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select, update

from agentfw import Episode
from agentfw.errors import StorageError, UsageError
from agentfw.runs import make_folder

from ..sessions.session_database import ADAPTERS, LEARNING, SessionDatabase
from ..sessions.session_store import Chosen, SessionJournal, new_holder
from .version_file import TRAINER, State, Version, VersionFile, state_of, written

LEASE = 10.0
"""Seconds after which a gateway trains no more that doesn't say that it does."""
_PART = 2**23  # bytes of an adapter in a row


class SharedVersionFile(VersionFile):
    """The versions as one gateway sees them."""

    def __init__(self, run: Path, address: str, *, policy: str = "", holder: str = "", lease: float = LEASE) -> None:
        super().__init__(run)
        self.address, self.policy, self.lease = address, policy, lease
        self.holder = holder or new_holder()
        self.is_trainer = bool(holder)
        """Whether changes need the lease: those of a trainer do, and those of a person who rolls back don't."""
        self.database = SessionDatabase(address)
        self._changed, self._heard = -1, 0
        self.heard_elsewhere(0)  # what was heard before doesn't count

    @property
    def exists(self) -> bool:
        rows = self.database.rows(select(LEARNING.c.policy))
        if rows and self.policy and rows[0].policy != self.policy:
            raise UsageError(
                f"the gateways at {self.database.where} learn for another policy than this one: {rows[0].policy}",
                fix="serve the same policy with the same settings, or leave --sessions or --learn out",
            )
        return bool(rows)

    def create(self) -> None:
        make_folder(self.folder)
        if self.exists:
            return
        with self.database.transaction() as connection:
            self.database.alone(connection, 6074003)
            if connection.execute(select(LEARNING.c.number)).first() is None:
                begun = {"content": written(State()), "policy": self.policy, "changed": 0, "heard": 0}
                connection.execute(insert(LEARNING).values(number=1, holder="", held_until=0.0, **begun))

    def read(self) -> State:
        asked = select(LEARNING.c.changed, LEARNING.c.content).where(LEARNING.c.changed != self._changed)
        for row in self.database.rows(asked):
            self._changed, self._read = row.changed, state_of(json.loads(row.content))
        return self._read

    @contextmanager
    def change(self) -> Iterator[State]:
        with self.database.transaction() as connection:
            row = connection.execute(select(LEARNING).with_for_update()).one()
            self._check_leads(connection)
            state = state_of(json.loads(row.content))
            yield state
            connection.execute(update(LEARNING).values(content=written(state), changed=row.changed + 1))

    def _check_leads(self, connection: Connection) -> None:
        if self.is_trainer and connection.execute(select(LEARNING.c.holder)).scalar_one() != self.holder:
            raise StorageError("another gateway trains now", fix="nothing: it learns from the same feedback")

    def lead(self) -> bool:
        """Take or renew the lease. Returns whether this gateway is the one that trains."""
        now = self.database.clock
        is_free = LEARNING.c.holder.in_(("", self.holder)) | (LEARNING.c.held_until <= now)
        taken = update(LEARNING).where(is_free).values(holder=self.holder, held_until=now + self.lease)
        return bool(self.database.rows(taken.returning(LEARNING.c.number)))

    def heard_elsewhere(self, own: int) -> int:
        told = update(LEARNING).values(heard=LEARNING.c.heard + own).returning(LEARNING.c.heard)
        rows = self.database.rows(told if own else select(LEARNING.c.heard))
        heard = int(rows[0].heard) if rows else 0
        found, self._heard = heard - self._heard - own, heard
        return max(0, found)

    def close(self) -> None:
        self.database.rows(update(LEARNING).where(LEARNING.c.holder == self.holder).values(holder=""))
        self.database.close()

    def episodes(self) -> Iterator[Episode]:
        return SessionJournal(self.database).sessions(Chosen(rated=True))

    def drop(self, numbers: Iterable[int]) -> None:
        self.database.rows(delete(ADAPTERS).where(ADAPTERS.c.version.in_(list(numbers))))

    def clear(self, state: State) -> None:
        super().clear(state)
        if self.is_trainer:  # no other trainer is about to name one of them
            known = [one.number for one in state.versions if one.adapter]
            with self.database.transaction() as connection:
                self._check_leads(connection)
                connection.execute(delete(ADAPTERS).where(ADAPTERS.c.version.not_in(known)))

    def keep(self, version: Version, made: Path) -> None:
        super().keep(version, made)
        kept = self.adapter(version)
        files = [kept] if kept.is_file() else sorted(path for path in kept.rglob("*") if path.is_file())
        with self.database.transaction() as connection:
            self._check_leads(connection)
            connection.execute(ADAPTERS.delete().where(ADAPTERS.c.version == version.number))  # of a killed trainer
            for file in files:
                name = "" if file == kept else file.relative_to(kept).as_posix()
                with file.open("rb") as handle:
                    for part, content in enumerate(iter(lambda: handle.read(_PART), b"")):
                        row = {"version": version.number, "path": name, "part": part, "content": content}
                        connection.execute(insert(ADAPTERS).values(**row))

    def fetch(self, version: Version) -> Path:
        adapter = self.adapter(version)
        if adapter.exists():
            return adapter
        part = adapter.with_name(f"{adapter.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.unlink(missing_ok=True)
        make_folder(part.parent)
        with self.database.transaction() as connection:
            asked = select(ADAPTERS).where(ADAPTERS.c.version == version.number)
            for row in connection.execute(asked.order_by(ADAPTERS.c.path, ADAPTERS.c.part)):
                file = part / row.path if row.path else part
                make_folder(file.parent)
                with file.open("ab") as handle:
                    handle.write(row.content)
        if part.exists():
            part.rename(adapter)
        return adapter

    def environment(self) -> dict[str, str]:
        return {TRAINER: json.dumps({"address": self.address, "policy": self.policy, "holder": self.holder})}
