"""The records of a run's plays: episodes with their metrics, the state of a training, and whether all is whole.

A training has one play per update and per evaluation. An episode has at most one line in each of episodes.jsonl and
metrics.jsonl, and one in metrics.jsonl only if it has one in episodes.jsonl. Episodes that failed and were left out
have a line in failed.jsonl, and none in metrics.jsonl.

The state is one file that is replaced atomically. An update is not complete until the file says so.

The summary of a finished run has the size and the digest of every journal, and the state of a training those of its
newest version. A run whose files differ in size is damaged and not done. Digests are compared where a run is shown,
resumed or served, because reading all of a large run takes seconds.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...episode import Episode
from ...errors import PluginError, RunFolderError, StorageError, UsageError, storing
from .journal import Journal, make_folder, read_journal, sealed, unsealed, write_whole

_FILE = "state.json"


@dataclass(frozen=True, slots=True)
class State:
    """A run after one of its updates. A run that learns nothing keeps the initial state."""

    update: int = 0
    version: str = ""  # the policy's newest version. Empty until there is one
    adapter: str = ""  # path of its adapter, below the run's folder
    learner: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    line: Mapping[str, Any] = field(default_factory=dict)
    """The metrics of the update, as in updates.jsonl. Stored here too, in case of a kill between the two writes."""
    files: Marks = field(default_factory=dict)  # of the newest version

    def write(self, folder: Path) -> None:
        try:
            json.dumps(asdict(self), allow_nan=False)
            text = sealed(asdict(self))
        except (TypeError, ValueError) as error:
            raise PluginError(
                f"after update {self.update}, the state of the learner or the optimizer can't be stored: {error}",
                fix="fix the plugin: a state must consist of finite numbers, text, lists and dicts",
            ) from error
        make_folder(folder / "states")
        write_whole(folder / "states" / f"{self.update:05d}.json", text)
        write_whole(folder / _FILE, text)

    @classmethod
    def read(cls, folder: Path) -> State:
        """Read the state. Without a file, no update is complete."""
        if not (folder / _FILE).exists() and not any(folder.glob("states/*.json")):
            return cls()
        return cls._of(folder / _FILE)

    @classmethod
    def known(cls, folder: Path) -> State:
        """The state as far as it can be read, to be shown."""
        with suppress(RunFolderError):
            return cls.read(folder)
        for number in kept_updates(folder):
            with suppress(RunFolderError):
                return cls.read_kept(folder, number)
        return cls()

    @classmethod
    def read_kept(cls, folder: Path, update: int) -> State:
        """The state as it was after an earlier update, as long as its version is kept."""
        return cls._of(folder / "states" / f"{update:05d}.json")

    @classmethod
    def _of(cls, file: Path) -> State:
        try:
            return cls(**unsealed(file.read_text("utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise RunFolderError(f"{file} can't be read: {error}", fix="restore it from a backup") from None


def kept_updates(folder: Path) -> list[int]:
    """The updates whose states are kept, newest first."""
    return sorted((int(file.stem) for file in folder.glob("states/*.json") if file.stem.isdigit()), reverse=True)


_METRICS = (
    *("episode", "task", "user", "reward", "utility", "outcome", "headline_by_round"),
    *("turns", "tokens", "usage", "judged", "failures", "finish", "scores"),
)
"""Keys of every line of metrics.jsonl."""


@contextmanager
def naming_line(path: Path, number: int) -> Iterator[None]:
    """Name the line of a journal that isn't the record that it should be."""
    try:
        yield
    except (StorageError, LookupError, TypeError) as error:
        what, fix = f"it is damaged: {error!r}", "restore it from a backup"
        if isinstance(error, StorageError):
            what, fix = error.message, error.fix
        raise RunFolderError(f"{path}, line {number}: {what}", fix=fix) from error


class Records:
    """The journals of one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def journal(self, name: str) -> Journal:
        return Journal.open(self.path / f"{name}.jsonl")

    def episodes(self) -> Iterator[Episode]:
        """The episodes on disk, in the order in which they ended."""
        path = self.path / "episodes.jsonl"
        for number, record in enumerate(read_journal(path), start=1):
            with naming_line(path, number):
                episode = Episode.from_record(record)
            yield episode

    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of each episode, in the order of the tasks."""
        return sorted(self.concluded(), key=lambda record: [int(part) for part in record["episode"].split("-")])

    def concluded(self) -> Iterator[dict[str, Any]]:
        """The metrics of each episode, in the order in which the episodes were scored and learned from."""
        path = self.path / "metrics.jsonl"
        for number, record in enumerate(read_journal(path), start=1):
            lacking = [key for key in _METRICS if key not in record]
            if lacking or not re.fullmatch(r"\d+-\d+", str(record["episode"])):
                what = f"has no {', '.join(lacking)}" if lacking else "names no episode"
                raise RunFolderError(f"{path}, line {number}, {what}", fix="restore the file from a backup")
            yield record

    def count(self) -> int:
        """Number of episodes that are done: concluded, or left out."""
        return sum(1 for _ in self.concluded()) + len(self.failed())

    def failed(self) -> list[dict[str, Any]]:
        """The episodes that were left out, with the reasons. Those that were played again later are not among them."""
        found: dict[str, dict[str, Any]] = {}
        for line in read_journal(self.path / "failed.jsonl"):
            for name in line.get("retried", ()):
                found.pop(name, None)
            if "episode" in line:
                found[line["episode"]] = line
        return list(found.values())

    def replay(self) -> Iterator[tuple[Episode, dict[str, Any] | None]]:
        """The episodes in the order in which they were scored and learned from, with the metrics of those that were."""
        lines = {str(record["episode"]): record for record in self.concluded()}
        # Within a batch, this differs from the order in which the episodes ended: some wait for their turn.
        order, held = deque(lines), dict[str, Episode]()
        for episode in self.episodes():
            if episode.id not in lines:
                yield episode, None
                continue
            held[episode.id] = episode
            while order and order[0] in held:
                name = order.popleft()
                yield held.pop(name), lines[name]
        if order:
            text = f"{self.path}/episodes.jsonl lacks episode {order[0]}, which metrics.jsonl contains"
            raise RunFolderError(text, fix="restore both from a backup, or start a new run")


def reasons(lines: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How often each reason occurs, the most frequent first. Reasons that differ only in numbers are one."""
    found: dict[str, list[str]] = {}
    for line in lines:
        found.setdefault(re.sub(r"\d+", "#", line["reason"]), []).append(line["reason"])
    return {same[0]: len(same) for same in sorted(found.values(), key=len, reverse=True)}


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
    """What is wrong with the files of a run with so many updates planned; before it is done, with its version alone."""
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
        replaced = [run / name for name in ("state.json", "updates.jsonl")]  # which stay until then, in case of a kill
        later = [run / "summary.json"]
        # What the next update learns from was played by this version.
        for place, last in (("rollouts", number + 1), ("evaluations", number), ("learner", number), ("states", number)):
            found = (run / place).glob("*")
            later += [path for path in found if path.stem.isdigit() and int(path.stem) > last]
        lines = (run / "updates.jsonl").read_bytes().splitlines(keepends=True)[:number]
        aside = run / "set_aside" / f"{len(list(run.glob('set_aside/*'))):05d}"
        for path in (*replaced, *later):
            if path.exists():
                target = aside / path.relative_to(run)
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                (shutil.copy2 if path in replaced else shutil.move)(path, target)
        write_whole(run / "updates.jsonl", b"".join(lines))
        state.write(run)
