"""What was streamed of answers that are not complete, for the process that comes after a kill.

Each answer in progress has a file below `streams/`, which grows as the answer does. It goes when the answer is complete
and its turn is in the journal. Nobody waits for these files, and they are not flushed: they survive the end of the
process, not a power cut.

    streams = Streams(folder)
    await streams.follow(lambda: live.sessions.values())     # for ever
    for episode, cut in streams.left():
        ...
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...turns.session import Session, Unfinished
from .journal import make_folder, make_private

__all__ = ["Streams"]

_PAUSE = 0.25  # seconds between two looks: about what a kill loses of a streamed answer


class Streams:
    """The files of one run."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "streams"
        self._written: dict[Path, int] = {}
        """Number of pieces in each file."""

    def left(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What an earlier process left: the id of the episode, and what its record says of the answer."""
        for file in sorted(self.path.glob("*")):
            head, _, text = file.read_bytes().partition(b"\n")
            try:
                about = json.loads(head)
                episode, shown, started = str(about["episode"]), tuple(about["shown"]), float(about["started"])
            except (ValueError, KeyError, TypeError):  # killed in its first line
                continue
            told = [text.decode("utf-8", "ignore")]  # the last character may be half written
            yield episode, Unfinished(0, started, shown, told).cut_off("killed")

    def clear(self) -> None:
        """Remove all files."""
        for file in self.path.glob("*"):
            file.unlink(missing_ok=True)
        if self.path.exists():
            self.path.rmdir()
        self._written.clear()

    async def follow(self, sessions: Callable[[], Iterable[Session]]) -> None:
        """Write what is streamed in these sessions, until this is cancelled."""
        while True:
            await asyncio.sleep(_PAUSE)
            answers = {
                self.path / f"{session.episode.id}-{answer.number}": (session.episode.id, answer, len(answer.told))
                for session in sessions()
                for answer in session.unfinished
                if answer.told
            }
            if answers or self._written:
                with suppress(OSError):  # on a full disk the journal refuses the answer, and says why
                    await asyncio.to_thread(self._write, answers)

    def _write(self, answers: dict[Path, tuple[str, Unfinished, int]]) -> None:
        for file in self._written.keys() - answers.keys():
            file.unlink(missing_ok=True)
            del self._written[file]
        for file, (episode, answer, count) in answers.items():
            before = self._written.get(file)
            head = json.dumps({"episode": episode, "shown": answer.shown, "started": answer.started}) + "\n"
            text = ("" if before is not None else head) + "".join(answer.told[before or 0 : count])
            make_folder(self.path)
            make_private(file)
            with file.open("ab") as handle:
                handle.write(text.encode("utf-8", "replace"))
            self._written[file] = count
