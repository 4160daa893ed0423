"""Keys of gateways that share a database: one that is added, changed or revoked holds at all of them within a second.

Each gateway has a copy of the keys, since every request asks for one, and looks for changes all the time. Where a key
has limits, all gateways count together: what it may still ask for this minute, and how many answers it is being given.

    keys = SharedKeys(SessionDatabase("postgresql://db.example.org/agentfw"))
    secret = keys.add("ada", per_minute=60)
    keys.find(secret)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict

from sqlalchemy import ColumnElement, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from ..keys import Key, Keys, key_exists, no_such_key
from .session_database import KEYS, PLACES, SessionDatabase, UnreachableError

_LOOKS = 1.0
"""Seconds between two looks for changes."""
_COLUMNS = [KEYS.c[name] for name in Key.__dataclass_fields__]


class SharedKeys(Keys):
    """The keys in a database. Methods that change or count something wait for it."""

    def __init__(self, database: SessionDatabase, holder: str = "", lease: float = 0.0) -> None:
        """`holder` is the gateway that answers for them, which says after less than `lease` seconds that it lives."""
        super().__init__()
        self.database, self._holder, self._lease, self._known = database, holder, lease, dict[str, Key]()
        self.place = database.where
        self.refresh()

    @property
    def exists(self) -> bool:
        return bool(self._known)

    def keys(self) -> Sequence[Key]:
        self.refresh()
        return list(self._known.values())

    def known(self) -> dict[str, Key]:
        return self._known

    def refresh(self) -> None:
        """Read all keys."""
        with self.database.transaction() as connection:
            rows = connection.execute(select(*_COLUMNS).order_by(KEYS.c.created, KEYS.c.name)).all()
        self._known = {row.digest: Key(*row) for row in rows}

    async def follow(self) -> None:
        """Look for changes, for ever."""
        while True:
            await asyncio.sleep(_LOOKS)
            with suppress(UnreachableError):  # then no session can be led, either
                await asyncio.to_thread(self.refresh)

    def insert(self, key: Key) -> None:
        try:
            with self.database.transaction() as connection:
                connection.execute(insert(KEYS).values(**asdict(key)))
        except IntegrityError:  # somebody else was quicker
            raise key_exists(key.name) from None

    def revoke(self, name: str) -> None:
        with self.database.transaction() as connection:
            if not connection.execute(delete(KEYS).where(KEYS.c.name == name)).rowcount:
                raise no_such_key(name, self.place)

    async def begin(self, key: Key, at_once: int) -> None:
        if key.per_minute is not None or key.concurrency is not None:
            await asyncio.to_thread(self._begin, key)

    def _begin(self, key: Key) -> None:
        with self.database.transaction(waits=False) as connection:
            now = self.database.now(connection)
            row = connection.execute(select(KEYS).where(KEYS.c.name == key.name).with_for_update()).first()
            if row is None:  # revoked at this moment: its next request is refused
                return
            if key.concurrency is not None:
                held = (PLACES.c.key == key.name) & (PLACES.c.held_until > now)
                asked = select(func.coalesce(func.sum(PLACES.c.count), 0)).where(held)
                self.check_places(key, connection.execute(asked).scalar_one())
            if key.per_minute is not None:
                left = self.left_after(key, row.left, now - (row.asked or now))
                connection.execute(update(KEYS).where(KEYS.c.name == key.name).values(left=left, asked=now))
            if key.concurrency is not None:
                until = {"held_until": now + self._lease}
                counted = update(PLACES).where(self._place(key)).values(count=PLACES.c.count + 1, **until)
                if not connection.execute(counted).rowcount:
                    connection.execute(insert(PLACES).values(key=key.name, holder=self._holder, count=1, **until))

    async def end(self, key: Key) -> None:
        if key.concurrency is not None:
            with suppress(UnreachableError):  # it is free when the lease ends
                await asyncio.to_thread(self._end, key)

    def _end(self, key: Key) -> None:
        with self.database.transaction(waits=False) as connection:
            connection.execute(update(PLACES).where(self._place(key)).values(count=PLACES.c.count - 1))

    def _place(self, key: Key) -> ColumnElement[bool]:
        return (PLACES.c.key == key.name) & (PLACES.c.holder == self._holder)
