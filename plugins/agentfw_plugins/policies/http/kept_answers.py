"""Answers of a server, kept in a run's folder, so that a resumed run asks nothing again that was answered.

    kept = KeptAnswers(folder / "answers.jsonl")
    if kept.find(asked) is None:
        await kept.keep(asked, reply)

An interrupted episode is played again from its beginning. Its requests are then the same, up to where it stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agentfw.runs import Journal, read_journal

__all__ = ["KeptAnswer", "KeptAnswers"]


class KeptAnswer(NamedTuple):
    reply: dict[str, Any]
    repeated: bool
    """Whether this process has had it before, from the server or from the file."""


class KeptAnswers:
    """The answers by what was asked. The file is made with the first answer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._journal: Journal | None = None
        self._replies: dict[str, Any] = {record["asked"]: record["reply"] for record in read_journal(path)}
        self._given = set[str]()

    def find(self, asked: Mapping[str, Any]) -> KeptAnswer | None:
        """The reply to this request, or None if it was never answered."""
        digest = _digest(asked)
        if digest not in self._replies:
            return None
        repeated = digest in self._given
        self._given.add(digest)
        return KeptAnswer(self._replies[digest], repeated)

    async def keep(self, asked: Mapping[str, Any], reply: Mapping[str, Any]) -> None:
        """Save a reply. It is on disk when this returns."""
        if self._journal is None:
            self._journal = Journal.open(self._path)
        digest = _digest(asked)
        self._replies[digest] = reply
        self._given.add(digest)
        await self._journal.commit({"asked": digest, "reply": reply})

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def _digest(asked: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
