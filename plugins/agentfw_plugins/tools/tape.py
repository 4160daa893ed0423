"""A tape around any toolbox: answers are recorded, and given again to the same calls.

A training against live tools becomes repeatable, and a call that was answered costs nothing the second time.

    [[tools]]
    name = "tape"
    settings = { inner = { name = "mcp", settings = { command = "my-server" } }, path = "answers.db" }

Two calls are the same if tool, arguments and `state` are. The order of arguments doesn't matter, nor whether a number
is written as 1 or 1.0, nor how an accent is encoded. Only answers are recorded, no failures: those may go away.

With `mode=replay` the inner toolbox is never opened. A call without a recorded answer is refused in words.
"""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
import unicodedata
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from agentfw import Host, Settings, Tool, Toolbox
from agentfw.errors import InterventionRefused, PluginError, StorageError, UsageError
from agentfw.request import Action
from agentfw.runs import Choice, make_private

__all__ = ["Tape", "TapeFile", "TapeSettings", "same_call"]

_TABLES = """
CREATE TABLE IF NOT EXISTS tool (name TEXT PRIMARY KEY, description TEXT, parameters TEXT, takes REAL, timeout REAL);
CREATE TABLE IF NOT EXISTS answer (key BLOB PRIMARY KEY, tool TEXT, arguments TEXT, answer TEXT);
"""


class TapeSettings(Settings):
    inner: Choice = Field(description="Toolbox whose answers are kept, with its settings.")
    path: str = Field("tape.db", min_length=1, description="File of the tape.")
    mode: Literal["both", "record", "replay"] = Field(
        "both",
        description="both: give recorded answers, and record new ones. record: call again and record. replay: give "
        "recorded answers only.",
    )
    state: str = Field(
        "", description="State of the world behind the tools, such as a date. Another state, another tape."
    )

    @field_validator("inner", mode="before")
    @classmethod
    def _one(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value


class TapeFile:
    """The file of a tape. What was kept is on disk, and processes can share it."""

    def __init__(self, path: str, *, where: str) -> None:
        """Open a tape, or make one. `where` names the setting in an error."""
        self.path = Path(path).expanduser()
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_private(self.path)
            self._rows = sqlite3.connect(self.path, isolation_level=None, timeout=60)
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"{where}: can't open {path}: {error}", fix="choose another file") from None
        try:
            self._rows.execute("PRAGMA journal_mode=WAL")
            self._rows.executescript(_TABLES)
        except sqlite3.Error as error:
            self._rows.close()
            raise StorageError(f"{where}: can't open {path}: {error}", fix="choose another file") from None

    def answer(self, key: bytes) -> str | None:
        """The answer that was kept under a key."""
        found = self.execute("SELECT answer FROM answer WHERE key = ?", key)
        return str(found[0][0]) if found else None

    def keep(self, key: bytes, tool: str, arguments: str, answer: str) -> str:
        """Keep an answer, and return it as it was kept."""
        shown, kept = (text.encode("utf-8", "replace").decode() for text in (arguments, answer))
        self.execute("INSERT OR REPLACE INTO answer VALUES (?, ?, ?, ?)", key, tool, shown, kept)
        return kept

    def execute(self, sql: str, *values: Any) -> list[Any]:
        try:
            return self._rows.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise StorageError(
                f"the tape {self.path} can't be used: {error}", fix="free disk space, or choose another file"
            ) from None

    def close(self) -> None:
        self._rows.close()


class Tape(Toolbox):
    """The tools of another toolbox, with their recorded answers."""

    def __init__(self, settings: TapeSettings, *, host: Host) -> None:
        self.settings = settings
        inner = settings.inner
        made = host.create("tool", inner.name, inner.settings, where="tool.tape.inner")
        if not isinstance(made, Toolbox):
            raise PluginError(f'tool "{inner.name}" is no Toolbox but {type(made).__name__}', fix="choose another tool")
        self._inner = made
        self._opened = False
        self._file: TapeFile | None = None
        self._under_way: dict[bytes, asyncio.Lock] = {}
        self.hits = self.misses = 0
        """Number of calls with and without a recorded answer."""

    async def open(self) -> Sequence[Tool]:
        self._file = TapeFile(self.settings.path, where="tool.tape.path")
        if self.settings.mode != "replay":
            tools = await self._inner.open()
            self._opened = True
            for tool in tools:
                about = (tool.action.name, tool.action.description, json.dumps(tool.action.parameters))
                self._file.execute(
                    "INSERT OR REPLACE INTO tool VALUES (?, ?, ?, ?, ?)", *about, tool.takes, tool.timeout
                )
            return [_Taped(self, tool.action, tool.takes, tool.timeout, tool) for tool in tools]
        known = self._file.execute("SELECT name, description, parameters, takes, timeout FROM tool ORDER BY rowid")
        if not known:
            raise UsageError(
                f"the tape {self.settings.path} is empty, so there is nothing to replay",
                fix="record with mode=both first",
            )
        return [
            _Taped(self, Action(name, description, json.loads(parameters)), takes, timeout, None)
            for name, description, parameters, takes, timeout in known
        ]

    async def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
        if self._opened:
            self._opened = False
            await self._inner.close()

    async def call(self, tool: Tool | None, name: str, arguments: Mapping[str, Any]) -> str:
        """The recorded answer, or the tool's own, which is on disk before it is given."""
        assert self._file is not None
        text = same_call(arguments)
        key = blake2b(
            f"{name}\0{self.settings.state}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16
        ).digest()
        # Two episodes that make the same call at the same time make it once.
        async with self._under_way.setdefault(key, asyncio.Lock()):
            if self.settings.mode != "record":
                found = self._file.answer(key)
                if found is not None:
                    self.hits += 1
                    return found
            self.misses += 1
            if tool is None:
                raise InterventionRefused(f"the tape has no answer of {name} to these arguments")
            answer = await tool.call(arguments)
            return self._file.keep(key, name, text, answer)


class _Taped(Tool):
    """One tool with its tape."""

    def __init__(self, tape: Tape, action: Action, takes: float, timeout: float, inner: Tool | None) -> None:
        self._tape, self._inner = tape, inner
        self.action, self.takes, self.timeout = action, takes, timeout

    async def call(self, arguments: Mapping[str, Any]) -> str:
        return await self._tape.call(self._inner, self.action.name, arguments)


def same_call(arguments: Mapping[str, Any]) -> str:
    r"""Arguments as a text that is equal for calls that mean the same.

    >>> same_call({"b": 1.0, "a": "e\u0301"}) == same_call({"a": "\u00e9", "b": 1})
    True
    """
    return json.dumps(_canonical(arguments), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {unicodedata.normalize("NFC", str(key)): _canonical(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    return value
