"""Copies shared sessions into a run below the directory of runs: `agentfw train --from postgresql://...`.

A copy has the sessions with feedback that no copy before had taken. What was taken for which copy is in the database,
so trainings on several machines learn from different feedback. A copy belongs to the training that names it. One that
no training names, because the process ended before or because there was too little feedback, is taken up by the next
training, with what was said since. So nothing is lost, and nothing is learned twice.
"""

from __future__ import annotations

import os
from pathlib import Path

from agentfw import Host
from agentfw.errors import RunInUseError, StorageError, disk_fix
from agentfw.runs import LiveRun, RunFolder, encoded, list_runs, make_private, parse_spec, read_sessions

from ...rewards.measured import feedback_of
from .session_journal import SessionJournal

_ORIGIN = "copied_from"
_SPEC = {
    "environment": "sessions",
    # Nobody is asked in a copy. What answered stands in its turns.
    "policy": {"name": "scripted", "settings": {"replies": [""]}},
    "rewards": ["feedback"],
}


def copied(address: str, host: Host, root: Path) -> list[Path]:
    """The runs below `root` to learn from, with all feedback that nobody has learned from yet.

    This process keeps them to itself until it ends.
    """
    journal = SessionJournal(address)
    try:
        copies = _unused(journal.where, root) or [_made(journal.where, host, root)]
        for copy in copies:
            journal.take(copy.id)
            _fill(copy, journal)
    finally:
        journal.close()
    return [copy.path for copy in copies]


def _unused(where: str, root: Path) -> list[RunFolder]:
    """Copies that no training names, and no other process is about to."""
    found = [copy for copy in list_runs(root) if copy.about.get(_ORIGIN) == where and _is_free(copy)]
    used = {name for run in list_runs(root) for name in _sources(run)} if found else set()
    unused = []
    for copy in found:
        if str(copy.path.resolve()) in used:
            copy.unlock()
        else:
            unused.append(copy)
    return unused


def _is_free(copy: RunFolder) -> bool:
    try:
        copy.lock()
    except RunInUseError:
        return False
    return True


def _sources(run: RunFolder) -> list[str]:
    """The runs that a training learns from."""
    return list(run.about["spec"]["environment"].get("settings", {}).get("runs", ()))


def _made(where: str, host: Host, root: Path) -> RunFolder:
    live = LiveRun.create(parse_spec(_SPEC), host, root)
    live.assembly.engine.close()
    live.folder.lock()
    live.folder.rewrite({**live.folder.about, _ORIGIN: where})
    return live.folder


def _fill(copy: RunFolder, journal: SessionJournal) -> None:
    """Write what was taken to the copy. Of sessions that the store has dropped since an earlier attempt, it has all."""
    turns = copy.path / "turns.jsonl"
    before = {one.task.index: one for one in read_sessions(copy.path)} if turns.exists() else {}
    written = turns.with_suffix(".new")
    try:
        written.unlink(missing_ok=True)
        make_private(written)
        with written.open("wb") as handle:
            for episode in journal.taken(copy.id):
                before.pop(episode.task.index, None)
                if any(feedback_of(episode)):
                    handle.write(encoded(episode.to_record()))
            for episode in before.values():
                handle.write(encoded(episode.to_record()))
            handle.flush()
            os.fsync(handle.fileno())
        written.replace(turns)
    except OSError as error:
        raise StorageError(f"can't write {turns}: {error.strerror or error}", fix=disk_fix(error)) from error
    journal.copied(copy.id)
