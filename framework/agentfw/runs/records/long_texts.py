"""Texts that are too long for an agent: it is shown the beginning, and the whole is a file of the run's folder.

Without a limit, a tool's answer of 10 MB would be in the record several times, and in every later prompt of its
episode. A file is named after its content, so what a tool answers a hundred times is kept once.

    texts = LongTexts(100_000, host.notes)
    texts.open(folder)
    shown = texts.shortened(answer, "the tool search")
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from .journal import make_folder, write_whole

__all__ = ["LongTexts"]

_ROOM = 1_000_000_000
"""Bytes that the files of a run may take together. What is longer than the rest of it is not kept."""


class LongTexts:
    """The long texts of one run."""

    def __init__(self, longest: int = 100_000, notes: list[str] | None = None) -> None:
        self.longest, self._notes = longest, [] if notes is None else notes
        self._folder: Path | None = None
        self._room = _ROOM
        self._told = set[str]()

    def open(self, folder: Path) -> None:
        """Keep texts below the folder of a run."""
        self._folder = folder / "long_texts"
        self._room = _ROOM - sum(file.stat().st_size for file in self._folder.glob("*.txt"))

    def shortened(self, text: str, whose: str) -> str:
        """The text, or its beginning and where the whole is."""
        if len(text) <= self.longest:
            return text
        place = self._kept(text.encode(errors="replace"))
        where = f"the whole is in {place}" if place else "the rest is not kept: there is no room left for long texts"
        if whose not in self._told:
            self._told.add(whose)
            self._notes.append(
                f"{whose} gave a text of {len(text):,} characters; the agent is shown the first {self.longest:,} "
                f"(max_answer), and {where}"
            )
        return f"{text[: self.longest]}\n[shortened: {len(text):,} characters; {where}]"

    def _kept(self, data: bytes) -> str:
        """The name of the file with this text. Empty if there is no room for it."""
        if self._folder is None:
            return ""
        path = self._folder / f"{hashlib.sha256(data).hexdigest()[:32]}.txt"
        if not path.exists():
            if len(data) > self._room:
                return ""
            make_folder(self._folder)
            write_whole(path, data)
            self._room -= len(data)
        return f"{self._folder.name}/{path.name}"
