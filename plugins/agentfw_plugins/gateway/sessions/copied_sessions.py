"""Copies the shared sessions with feedback into a run below the directory of runs: `agentfw train --from postgresql://...`.

Each training has a copy of its own, so that it can be resumed and repeated whatever becomes of the database.
`--keep-ended` may delete what a copy has.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from agentfw import Host
from agentfw.errors import StorageError, UsageError, disk_fix
from agentfw.runs import LiveRun, encoded, make_private, parse_spec

from .session_store import Chosen, SessionJournal

_SPEC = {
    "environment": "sessions",
    # Nobody is asked in a copy. What answered stands in its turns.
    "policy": {"name": "scripted", "settings": {"replies": [""]}},
    "rewards": ["feedback"],
}


def copied(address: str, host: Host, root: Path) -> list[Path]:
    """The run below `root` to learn from."""
    with closing(SessionJournal(address)) as journal:
        if not journal.rated_so_far():
            words = f"there is no feedback in the sessions at {journal.database.where}"
            raise UsageError(words, fix="rate answers: agentfw feedback SESSION")
        live = LiveRun.create(parse_spec(_SPEC), host, root)
        live.assembly.engine.close()
        turns, versions = live.folder.path / "turns.jsonl", dict[int, int]()
        try:
            make_private(turns)
            with turns.open("wb") as handle:
                for version, episode in journal.versions(Chosen(rated=True)):
                    handle.write(encoded(episode.to_record()))
                    versions[episode.task.index] = version
                handle.flush()
                os.fsync(handle.fileno())
        except OSError as error:
            raise StorageError(f"can't write {turns}: {error.strerror or error}", fix=disk_fix(error)) from error
        journal.copied(versions)
    return [live.folder.path]
