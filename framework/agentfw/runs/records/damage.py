"""Notices files of a run that were cut, emptied, changed or removed, and goes back to what is whole.

The summary of a finished run has the size and the digest of every journal, and the state of a training those of its
newest version. A run whose files differ in size is damaged and not done. Digests are compared where a run is shown,
resumed or served, because reading all of a large run takes seconds.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ...errors import RunFolderError, UsageError, storing
from .journal import unsealed, write_whole
from .play_records import State, kept_updates

Marks = Mapping[str, Sequence[int | str]]  # size and SHA-256 of files, by their path below the run's folder
_JOURNALS = ("episodes.jsonl", "metrics.jsonl", "failed.jsonl", "advantages.json")


def marks_of(folder: Path, files: Iterable[Path]) -> Marks:
    there = [file for file in sorted(files) if file.is_file()]
    return {file.relative_to(folder).as_posix(): [size := file.stat().st_size, _digest(file, size)] for file in there}


def _digest(file: Path, size: int) -> str:
    found = hashlib.sha256()
    with file.open("rb") as handle:
        while size and (piece := handle.read(min(size, 1 << 22))):
            found.update(piece)
            size -= len(piece)
    return found.hexdigest()


def journals_of(folder: Path) -> Marks:
    """The marks of a run's records: its summary has them when the run is done."""
    files = [file for name in _JOURNALS for file in (folder / name, *folder.glob(f"*/*/{name}"))]
    aside = folder / "set_aside"
    others = [folder / "updates.jsonl", folder / "run.json"]
    return marks_of(folder, [*(file for file in files if aside not in file.parents), *others])


def differing(folder: Path, marks: Marks, *, deep: bool) -> list[str]:
    """What isn't as its mark says, in words. Only `deep` finds a changed byte. Journals may grow: by feedback, say."""
    lines = []
    for name, (size, digest) in marks.items():
        file, size = folder / name, int(size)
        now = file.stat().st_size if file.is_file() else -1
        if now < 0:
            lines.append(f"{name} is gone, and had {size:,} bytes")
        elif now < size or (now > size and file.suffix != ".jsonl"):
            lines.append(f"{name} has {now:,} bytes, and had {size:,}")
        elif deep and _digest(file, size) != digest:
            lines.append(f"{name} was changed after it was written")
    return lines


def damage(run: Path, updates: int, *, deep: bool = False) -> list[str]:
    """What is wrong with the files of a run that was to make so many updates. Until it is done, with its version."""
    lines = []
    try:
        state = State.read(run)
        lines += differing(run, state.files, deep=deep)
        if state.update < updates and (run / "summary.json").exists():
            lines.append(f"state.json has {state.update} of {updates} updates, and the run was done")
    except RunFolderError as error:
        lines.append(error.message)
    file = run / "summary.json"
    if not file.exists():
        return lines
    try:
        summary = unsealed(file.read_text("utf-8"))
        summary["episodes"], summary["figures"]
        lines += differing(run, summary["files"], deep=deep)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        lines.append(f"summary.json can't be read: {error}")
    return lines


def require_whole(run: Path, state: State) -> None:
    """Raise if the newest version of a training isn't as it was written. The fix names the last one that is."""
    if lines := differing(run, state.files, deep=True):
        text = f"the version {state.version} of {run.name} is damaged: {'; '.join(lines)}"
        raise RunFolderError(text, fix=f"restore it from a copy{_or_whole(run, state.update)}")


def read_state(run: Path) -> State:
    """The state of a training. If it can't be read, the error names the last update that is whole."""
    try:
        return State.read(run)
    except RunFolderError as error:
        error.fix += _or_whole(run, 1 << 60)
        raise


def _or_whole(run: Path, before: int) -> str:
    found = (number for number in _whole_updates(run) if number < before)
    command = f"agentfw runs resume {run.name} --from-update"
    return next((f", or go on from the whole one before: {command} {number}" for number in found), "")


def _whole_updates(run: Path) -> Iterator[int]:
    """The kept updates whose version is as it was written, newest first."""
    for number in kept_updates(run):
        with suppress(RunFolderError):
            if not differing(run, State.read_kept(run, number).files, deep=True):
                yield number


def rewind(run: Path, number: int) -> None:
    """Make a training what it was after one of its updates. What came later is set aside."""
    known = list(_whole_updates(run))
    if number not in known:
        raise UsageError(
            f"{run.name} can't go on from update {number}",
            fix=f"whole are: {', '.join(map(str, known))}" if known else "no version of it is whole; train it again",
        )
    with storing(f"rewind {run}"):
        state = State.read_kept(run, number)
        later = [run / name for name in ("summary.json", "state.json", "updates.jsonl")]
        # What the next update learns from was played by this version.
        for place, last in (("rollouts", number + 1), ("evaluations", number), ("learner", number), ("states", number)):
            found = (run / place).glob("*")
            later += [path for path in found if path.stem.isdigit() and int(path.stem) > last]
        lines = (run / "updates.jsonl").read_bytes().splitlines(keepends=True)[:number]
        aside = run / "set_aside" / f"{len(list(run.glob('set_aside/*'))):05d}"
        for path in later:
            if path.exists():
                target = aside / path.relative_to(run)
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.move(path, target)
        write_whole(run / "updates.jsonl", b"".join(lines))
        state.write(run)
