"""Answers of a server, kept in a run's folder, so that a resumed run asks nothing again that was answered.

    kept = KeptAnswers(folder / "answers.jsonl")
    if (reply := kept.find(asked)) is None:
        await kept.keep(asked, reply)

An interrupted episode is played again from its beginning. Its requests are then the same, up to where it stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentfw.runs import Journal, read_journal

__all__ = ["KeptAnswers"]


class KeptAnswers:
    """The answers by what was asked. The file is made with the first answer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._journal: Journal | None = None
        self._replies: dict[str, Any] = {record["asked"]: record["reply"] for record in read_journal(path)}

    def find(self, asked: Mapping[str, Any]) -> object | None:
        """The reply to this request, or None if it was never answered."""
        return self._replies.get(_digest(asked))

    async def keep(self, asked: Mapping[str, Any], reply: object) -> None:
        """Save a reply. It is on disk when this returns."""
        if self._journal is None:
            self._journal = Journal.open(self._path)
        digest = _digest(asked)
        self._replies[digest] = reply
        await self._journal.commit({"asked": digest, "reply": reply})

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def _digest(asked: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
