"""The rows of one tenant in a database, read and written by statements, of which a subclass supplies the dialect.

Every statement names the tenant, which no method takes, so that no caller can reach another one. User text is only ever
passed as a parameter, for which statements have `?`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from ..graph_settings import PATIENCE
from ..records import Float32Array
from .store import (
    TABLES,
    Among,
    Answer,
    Between,
    Change,
    Clock,
    Count,
    Delete,
    EmbedderRecord,
    Head,
    Insert,
    Not,
    Reading,
    Select,
    Update,
    Where,
    Writing,
)

if TYPE_CHECKING:
    from .postgres_search import PostgresSearch

Statement = tuple[str, list[Any]]


class Column(NamedTuple):
    """How a database takes and returns the values of a column."""

    made: Callable[[Any], Any] | None = None
    """Makes a parameter of a value, if it isn't one already."""
    place: str = "?"
    """The placeholder of the parameter."""
    read: str = "{}"
    """The expression that reads the column."""


_PLAIN = Column()


class Store(ABC):
    """The rows of one tenant in one database."""

    refusals: ClassVar[tuple[type[Exception], ...]] = ()
    """Exceptions that the database driver raises for an invalid row."""
    prefix: ClassVar[str] = ""
    """What comes before the name of a table."""
    columns: ClassVar[Mapping[str, Column]] = {"vector": Column(lambda vector: np.asarray(vector, "<f4").tobytes())}
    """By kind: columns that aren't written and read as they are. A store without "words" leaves these columns out."""
    in_order: ClassVar[Mapping[str, str]] = {}
    """By table: a hint where the planner needs one to read it in the order of its key."""

    def __init__(self, where: str | Path, *, patience: float = PATIENCE, power_safe: bool = False) -> None:
        """Connect to a database, or create it. `where` is a path, or an address with the store's scheme. Calls wait up
        to `patience` seconds for a server. With `power_safe`, each commit waits for the disk."""
        self.tenant, self._tenant, self._clock = "", 0, time.time
        self._inserts: dict[tuple[str, ...], str] = {}

    @classmethod
    def open(
        cls,
        where: str | Path,
        *,
        tenant: str,
        clock: Clock = time.time,
        patience: float = PATIENCE,
        power_safe: bool = False,
    ) -> Self:
        """Open or create a database and the tenant in it."""
        store = cls(where, patience=patience, power_safe=power_safe)
        store.tenant, store._clock = tenant, clock
        try:
            store._tenant = store.retried(store._number, repeatable=True)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def tenants(cls, where: str | Path) -> list[str]:
        """Return the names of the tenants in a database."""
        store = cls(where)
        sql = f"SELECT name FROM {cls.prefix}tenant ORDER BY name"
        try:
            return [name for (name,) in store.retried(lambda: store._rows(sql, []), repeatable=True)]
        finally:
            store.close()

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Read the same state in all of the block."""

    @abstractmethod
    def erase(self) -> None:
        """Remove deleted rows from the files too. Call it after the deletion was committed."""

    @abstractmethod
    def bytes_on_disk(self) -> int:
        """Return the size of the database, other tenants included."""

    @property
    def search(self) -> PostgresSearch | None:
        """What searches in the database, so that no process has to hold all of it, or None if the database can't."""
        return None

    def now(self) -> float:
        """The time of the store's clock."""
        return self._clock()

    def retried(self, call: Callable[[], Answer], *, repeatable: bool) -> Answer:
        """Return what a call returns. Repeat it for a while if it loses its connection to a server. A call that is not
        `repeatable` is repeated only if it is certain that nothing of it was stored."""
        return call()

    def head(self) -> Head:
        """Return what is known of the tenant as a whole. It is asked before each call of a graph, so it is fast."""
        sql = (
            "SELECT t.counter, t.forgotten, t.next_number, t.embedder, t.embedder_version, t.dimensions, "
            f"(SELECT e.row FROM {self.prefix}edge e WHERE e.tenant = t.tenant ORDER BY e.row DESC LIMIT 1), "
            f"EXISTS (SELECT 1 FROM {self.prefix}version v WHERE v.tenant = t.tenant AND v.expires_at <= ? "
            f"AND v.valid_to IS NULL) FROM {self.prefix}tenant t WHERE t.tenant = ?"
        )
        (row,) = self._rows(sql, [self._clock(), self._tenant])
        counter, forgotten, next_number, name, version, dimensions, edge, expired = row
        return Head(counter, forgotten, next_number, _maker(name, version, dimensions), edge or 0, bool(expired))

    def read(self, *readings: Reading) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each. A server is asked for all of them at once."""
        return [self._rows(*self._reading(one)) for one in readings]

    def scan(
        self, table: str, columns: tuple[str, ...], where: Where, *, after: int = 0, size: int = 50_000
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a table in the order of its key, in batches of up to `size`. The key comes first among the
        columns, and only rows are read whose key begins above `after`."""
        key = TABLES[table].key
        names, conditions, values = self._columns(table, columns), *self._where(table, where)
        ordered = _quoted(key)
        sql = f"SELECT {names} FROM {self.prefix}{table} {self.in_order.get(table, '')} WHERE tenant = ? {conditions}"
        end = f"ORDER BY {ordered} LIMIT {int(size)}"
        last: tuple[Any, ...] = (after,)
        while batch := self._rows(
            f"{sql} AND ({_quoted(key[: len(last)])}) > ({', '.join('?' * len(last))}) {end}",
            [self._tenant, *values, *last],
        ):
            yield batch
            last = batch[-1][: len(key)]

    @contextmanager
    def writing(self, *, waits: bool = True) -> Iterator[Change]:
        """Open a write transaction. It commits at the end of the block and rolls back on an exception.

        Waits for other writers. Reads inside the block see its writes. Without `waits`, a server's disk may have it a
        moment later, in the order of commits.
        """
        with self._transaction(waits=waits):
            # In PostgreSQL, the lock on this row makes writers of a tenant wait for each other.
            sql = (
                f"UPDATE {self.prefix}tenant SET counter = counter + 1 WHERE tenant = ? "
                "RETURNING counter, embedder, embedder_version, dimensions"
            )
            ((counter, *embedder),) = self._rows(sql, [self._tenant])
            yield Change(int(counter), self._clock(), _maker(*embedder))

    def write(self, *writings: Writing) -> list[int]:
        """Write inside a transaction, and return how many rows each has changed. Vectors are given as arrays."""
        return [self._insert(one) if isinstance(one, Insert) else self._change(one) for one in writings]

    def new_numbers(self, count: int) -> range:
        """Return numbers for nodes, inside a transaction."""
        sql = f"UPDATE {self.prefix}tenant SET next_number = next_number + ? WHERE tenant = ? RETURNING next_number"
        end = int(self._rows(sql, [count, self._tenant])[0][0])
        return range(end - count, end)

    def set_head(self, *, embedder: EmbedderRecord | None = None, **numbers: int) -> None:
        """Change what is known of the tenant as a whole, inside a transaction: fields of `Head`."""
        values: dict[str, Any] = dict(numbers)
        if embedder is not None:
            values |= zip(("embedder", "embedder_version", "dimensions"), astuple(embedder), strict=True)
        sql = f"UPDATE {self.prefix}tenant SET {', '.join(f'{name} = ?' for name in values)} WHERE tenant = ?"
        self._run(sql, [*values.values(), self._tenant])

    def take_staged(self, change: Change) -> None:
        """Replace the vectors of skills and profiles by the staged ones, inside a transaction."""
        for name in ("live", "profile"):
            table, key = f"{self.prefix}{name}", TABLES[name].key[0]
            self._run(
                f"UPDATE {table} SET changed = ?, vector = (SELECT s.vector FROM {self.prefix}staged s "
                f'WHERE s.tenant = {table}.tenant AND s.number = {table}."{key}") WHERE tenant = ?',
                [change.number, self._tenant],
            )
        self._change(Delete("staged", {}))

    # Statements

    def _number(self) -> int:
        """Return the number of the tenant, which is added if it is new. Several processes may do so at once."""
        find = f"SELECT tenant FROM {self.prefix}tenant WHERE name = ?"
        if not (rows := self._rows(find, [self.tenant])):
            with self._transaction():
                self._run(f"INSERT INTO {self.prefix}tenant (name) VALUES (?) ON CONFLICT DO NOTHING", [self.tenant])
                rows = self._rows(find, [self.tenant])
        return int(rows[0][0])

    def _reading(self, one: Reading) -> Statement:
        conditions, values = self._where(one.table, one.where)
        if isinstance(one, Count):
            what, end = f'"{one.by}", count(*)', f' GROUP BY "{one.by}"'
        else:
            what = f"{'DISTINCT ' if one.distinct else ''}{self._columns(one.table, one.columns)}"
            end = "" if one.limit is None else f" LIMIT {int(one.limit)}"
        sql = f"SELECT {what} FROM {self.prefix}{one.table} WHERE tenant = ? {conditions}{end}"
        return sql, [self._tenant, *values]

    def _columns(self, table: str, columns: Iterable[str]) -> str:
        kinds = TABLES[table].columns
        return ", ".join(self.columns.get(kinds[name], _PLAIN).read.format(f'"{name}"') for name in columns)

    def _where(self, table: str, where: Where) -> Statement:
        found = [self._condition(f'"{name}"', wanted) for name, wanted in where.items()]
        return " ".join(f"AND {sql}" for sql, _ in found), [value for _, values in found for value in values]

    def _condition(self, column: str, wanted: Any) -> Statement:
        if wanted is None:
            return f"{column} IS NULL", []
        if isinstance(wanted, (int, float, str, bytes)):
            return f"{column} = ?", [wanted]
        if isinstance(wanted, tuple):  # kinds, which are few
            return f"{column} IN ({', '.join('?' * len(wanted))})", list(wanted)
        if isinstance(wanted, Among):
            if isinstance(wanted.values, Select):
                sql, values = self._reading(wanted.values)
                return f"{column} IN ({sql})", values
            some = list(wanted.values)
            if len(some) < 2:
                return (f"{column} = ?", some) if some else ("1 = 0", [])
            return self._among(column, some)
        if isinstance(wanted, Between):
            ends = {">=": wanted.low, ">": wanted.above, "<=": wanted.high}
            given = {sign: value for sign, value in ends.items() if value is not None}
            return " AND ".join(f"{column} {sign} ?" for sign in given), list(given.values())
        assert isinstance(wanted, Not)
        if isinstance(wanted.value, (int, float, str)):
            return f"{column} <> ?", [wanted.value]
        sql, values = self._condition(column, wanted.value)
        return f"NOT {sql}", values

    def _insert(self, one: Insert) -> int:
        if not one.rows:
            return 0
        kinds = TABLES[one.table].columns
        kept = [
            (place, name, self.columns.get(kinds[name], _PLAIN).made)
            for place, name in enumerate(one.columns)
            if kinds[name] != "words" or "words" in self.columns
        ]
        rows = [
            (self._tenant, *[row[place] if made is None else made(row[place]) for place, _, made in kept])
            for row in one.rows
        ]
        return self._insert_rows(one, [name for _, name, _ in kept], rows)

    def _insert_rows(self, one: Insert, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> int:
        """Add rows of the tenant and these columns. A store whose database enforces no keys has a way of its own."""
        shape = one.table, one.existing, *names
        if shape not in self._inserts:  # to put a statement together takes longer than to run it
            kinds, key = TABLES[one.table].columns, TABLES[one.table].key
            places = ", ".join(self.columns.get(kinds[name], _PLAIN).place for name in names)
            end = "ON CONFLICT DO NOTHING" if one.existing == "keep" else ""
            if one.existing == "replace":
                new = ", ".join(f'"{name}" = excluded."{name}"' for name in names if name not in key)
                end = f"ON CONFLICT (tenant, {_quoted(key)}) DO UPDATE SET {new}"
            into = f"INSERT INTO {self.prefix}{one.table} (tenant, {_quoted(names)})"
            self._inserts[shape] = f"{into} VALUES (?, {places}) {end}"
        return self._run_many(self._inserts[shape], rows)

    def _change(self, one: Update | Delete) -> int:
        conditions, found_by = self._where(one.table, one.where)
        if isinstance(one, Delete):
            sql = f"DELETE FROM {self.prefix}{one.table} WHERE tenant = ? {conditions}"
            return self._run(sql, [self._tenant, *found_by])
        kinds = TABLES[one.table].columns
        sets, values = [f'"{name}" = "{name}" + ?' for name in one.add], list[Any](one.add.values())
        for name, value in one.values.items():
            if kinds[name] != "words" or "words" in self.columns:
                column = self.columns.get(kinds[name], _PLAIN)
                sets.append(f'"{name}" = {column.place}')
                values.append(value if column.made is None else column.made(value))
        sql = f"UPDATE {self.prefix}{one.table} SET {', '.join(sets)} WHERE tenant = ? {conditions}"
        return self._run(sql, [*values, self._tenant, *found_by])

    # The dialect

    def vectors(self, values: Sequence[Any]) -> Float32Array:
        """Convert values of a column of vectors, as they were read, to the rows of a matrix."""
        return np.frombuffer(b"".join(values), "<f4").astype(np.float32, copy=False).reshape(len(values), -1)

    @abstractmethod
    def _among(self, column: str, values: list[Any]) -> Statement:
        """Return the condition that a column is one of these numbers or texts, of which there are several."""

    @abstractmethod
    def _run(self, sql: str, values: Sequence[Any]) -> int:
        """Execute a statement and return the number of rows that it changed."""

    @abstractmethod
    def _run_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Execute a statement once for each row of values, and return the number of rows that it changed."""

    @abstractmethod
    def _rows(self, sql: str, values: Sequence[Any]) -> list[Any]:
        """Execute a query and return all rows."""

    @abstractmethod
    def _transaction(self, *, waits: bool = True) -> AbstractContextManager[None]:
        """Open a write transaction."""


_TENANT = {
    "name": ("text", "NOT NULL UNIQUE"),
    "counter": ("integer", "NOT NULL DEFAULT 0"),
    "forgotten": ("integer", "NOT NULL DEFAULT 0"),
    "next_number": ("integer", "NOT NULL DEFAULT 1"),
    "embedder": ("text", ""),
    "embedder_version": ("text", ""),
    "dimensions": ("integer", ""),
}
"""The columns of the table of tenants, besides the number of each."""


def create_statements(
    types: Mapping[str, str], *, numbered: str, prefix: str = "", ends: tuple[str, str] = ("", ""), keys: bool = True
) -> Iterator[str]:
    """Yield the statements that create all tables.

    `types` has the type of each kind of column. Kinds without one are left out. `numbered` is the type of a column
    whose values the database counts itself, `ends` what follows the columns of a table and of one with short rows, and
    without `keys` the database enforces none.
    """
    columns = [f"{name} {types[kind]} {needed}" for name, (kind, needed) in _TENANT.items()]
    yield f"CREATE TABLE {prefix}tenant (tenant {numbered.format('tenant')}, {', '.join(columns)}) {ends[0]}"
    for name, table in TABLES.items():
        columns = [f"tenant {types['integer']} NOT NULL"]
        for column, kind in table.columns.items():
            plain = kind.removeprefix("optional ")
            if column == "row":
                columns.append(f'"row" {numbered.format(name)}')
            elif plain in types:
                needed = "" if plain != kind or kind == "words" else " NOT NULL"
                default = " DEFAULT 0" if column in ("uses", "rewards") else ""
                columns.append(f'"{column}" {types[plain]}{needed}{default}')
        if keys and table.key != ("row",):
            columns.append(f"PRIMARY KEY (tenant, {_quoted(table.key)})")
        yield f"CREATE TABLE {prefix}{name} ({', '.join(columns)}) {ends[table.small]}"
        for index in table.indexes if keys else ():
            conditions = [f"{index.given} IS NOT NULL"] * bool(index.given) + ["valid_to IS NULL"] * index.valid
            where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
            unique, called = "UNIQUE " if index.unique else "", f"{name}_{'_'.join(index.columns)}"
            yield f"CREATE {unique}INDEX {called} ON {prefix}{name} (tenant, {_quoted(index.columns)}) {where}"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _maker(name: str | None, version: str, dimensions: int) -> EmbedderRecord | None:
    return None if name is None else EmbedderRecord(name, version, dimensions)
