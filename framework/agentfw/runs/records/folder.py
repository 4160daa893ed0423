"""The folder of a run: its settings, its records, and a lock that allows one process at a time.

The folder contains everything that is needed to understand and resume the run. Nothing is kept only in memory.

    RUNS/2026-11-21-inbox-7f3a19c4/
        run.json                        resolved settings and versions of plugins; written again only when they change
        episodes.jsonl  metrics.jsonl   the episodes in the order in which they ended, and their metrics
        failed.jsonl                    episodes that failed and were left out, if there are any
        summary.json                    the results of the whole run; exists when it is done
        report.html  curve.svg
        lock                            held by the process that works on the run

In a training, these replace the second line:

        state.json                      the last completed update
        updates.jsonl                   metrics, one line per update
        rollouts/00003/                 episodes.jsonl and metrics.jsonl of what the third update learned from
        evaluations/00002/              episodes.jsonl and metrics.jsonl of the evaluation after two updates
        learner/00003/                  output of the third update: adapters, and files of the learner

Its result is its last complete evaluation, because the policy changes during the rollouts.
"""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from ...boundary.secrets import strike
from ...episode import Episode
from ...errors import RunFolderError, RunInUseError, StorageError, UnknownNameError, UsageError, storing
from ...host.project import runs_directory
from ...host.trust import allow_spec, of_run
from ...printing.out import shown_path
from .journal import Journal, read_journal, sealed, unsealed, write_whole
from .package import changed_parts
from .play_records import Records, State, damage, journals_of, reasons, rewind

FORMAT = 3


class RunFolder:
    """One run's folder."""

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        # A plugin may change the current directory.
        self.path, self.about = path.absolute(), about
        self._lock: int | None = None

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def planned_updates(self) -> int:
        """Planned number of updates. 0 if nothing is learned."""
        return int(self.about["updates"])

    @property
    def updates_at_first(self) -> int:
        """The updates that the training was planned with. What these learn from doesn't change when more are added."""
        return int(self.about.get("began_with", self.about["spec"])["updates"])

    @property
    def unit(self) -> str:
        """The unit of `total` and `done`."""
        return "updates" if self.planned_updates else "episodes"

    @property
    def total(self) -> int:
        """What is planned. A live run has no plan: it has what is done, and what failed."""
        return self.planned_updates or int(self.about["episodes"]) or self.evaluation(0).count()

    @property
    def done(self) -> int:
        """How many have ended well. Those that failed are not among them."""
        if self.planned_updates:
            return State.known(self.path).update
        return sum(1 for _ in self.evaluation(0).concluded())

    @property
    def how_far(self) -> str:
        """How much is done, in words, what failed first: `2 failed, 7 of 20 episodes`."""
        failed = 0 if self.planned_updates else len(self.failed())
        done, total = self.done, self.total
        of = "" if done == total or self.is_live else f" of {total:,}"
        unit = "sessions" if self.is_live else self.unit
        count = f"{done:,}{of} {unit if (total if of else done) != 1 else unit[:-1]}{' ended' * self.is_live}"
        return f"{failed:,} failed, {count}" if failed else count

    @property
    def is_live(self) -> bool:
        """Whether its episodes are sessions that come from outside, so that nothing was planned."""
        return not self.planned_updates and not self.about["episodes"]

    @property
    def resume_command(self) -> str:
        """What to type to go on with it."""
        return f"agentfw serve --resume {self.called}" if self.is_live else f"agentfw runs resume {self.called}"

    @property
    def called(self) -> str:
        """How to refer to it on the command line: by its name where that finds it, else by its path."""
        is_found = self.path.parent.resolve() == runs_directory(None).resolve()
        return self.id if is_found else shlex.quote(shown_path(self.path))

    def without_episodes(self) -> UsageError:
        """The refusal of what needs an episode, while there is none."""
        if failed := reasons(self.failed()):
            return UsageError(f"no episode of {self.id} has ended well: {next(iter(failed))}", fix="run it again")
        if damaged := self.damage():
            return RunFolderError(f"{self.id} is damaged: {'; '.join(damaged)}", fix="restore it from a copy")
        if self.is_live and any(True for _ in self.episodes()):
            problem = f"{self.path / 'metrics.jsonl'} lacks the figures of sessions that have ended"
            return RunFolderError(problem, fix="restore it from a copy")
        if self.is_live:
            fix = f"look at those in progress: agentfw view {self.id}, or end one: agentfw feedback SESSION --end"
            return UsageError(f"no session of {self.id} has ended yet", fix=fix)
        return UsageError(f"{self.id} has no finished episode yet", fix=self.resume_command)

    @property
    def headline(self) -> str:
        """The name of the environment's main metric."""
        return str(self.about["headline"])

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower headline is better."""
        return bool(self.about.get("lower_is_better"))

    @property
    def columns(self) -> dict[str, str]:
        """Columns of the run's table, with their headings. Empty if the table lists all metrics."""
        return dict(self.about.get("columns", {}))

    @property
    def names(self) -> dict[str, str]:
        """The headings where each stands alone: `@25` beside `AER@1` is `AER@25`."""
        found, before = {}, ""
        for name, title in self.columns.items():
            head, at, _ = title.partition("@")
            before = head or before
            found[name] = before + title if at and not head else title
        return found

    @property
    def meanings(self) -> dict[str, str]:
        """Explanations of figures in the run's table."""
        return dict(self.about.get("meanings", {}))

    @property
    def time_unit(self) -> str:
        """What a unit of time is, if the environment says it."""
        return str(self.about.get("time_unit", ""))

    @property
    def segments(self) -> list[str]:
        """What took part from which episode or update on, where the run was resumed with something else."""
        before, lines = self.about, list[str]()
        for each in self.about.get("segments", ()):
            changed = changed_parts(before, each, "before", "from then on")
            lines += [f"after {each['from']} {self.unit}: {line}" for line in changed]
            before = each
        return lines

    def note_segment(self, now: Mapping[str, Any]) -> None:
        """Record what takes part from here on, if it isn't what took part so far."""
        segments = [*self.about.get("segments", ()), {"from": self.done, **now}]
        trial = type(self)(self.path, json.loads(json.dumps({**self.about, "segments": segments})))
        if len(trial.segments) > len(self.segments):
            self.rewrite(trial.about)

    def evaluation(self, update: int) -> Records:
        """The episodes after this many updates. Without planned updates, those of the run itself."""
        return Records(self.path / "evaluations" / f"{update:05d}" if self.planned_updates else self.path)

    def evaluations(self) -> dict[int, Records]:
        """The complete evaluations, by the number of updates before them."""
        numbers = sorted(int(path.name) for path in self.path.glob("evaluations/*") if path.name.isdigit())
        found = {number: self.evaluation(number) for number in (numbers if self.planned_updates else [0])}
        whole = int(self.about["episodes"])
        return {number: records for number, records in found.items() if records.count() == whole}

    def result(self) -> Records:
        """The last complete evaluation, or else the first one, as far as it exists."""
        return self.evaluation(max(self.evaluations(), default=0))

    def episodes(self) -> Iterator[Episode]:
        """The episodes of the result, in the order in which they ended."""
        return self.result().episodes()

    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of each episode of the result, in the order of the tasks."""
        return self.result().metrics()

    def stages(self) -> dict[int, list[dict[str, Any]]]:
        """The metrics of each complete evaluation, by the number of updates before it."""
        return {number: records.metrics() for number, records in self.evaluations().items()}

    def rollouts(self, update: int) -> Records:
        """The episodes that this update learns from. Updates count from 1."""
        return Records(self.path / "rollouts" / f"{update:05d}")

    def updates(self) -> list[dict[str, Any]]:
        """The metrics of each update."""
        return list(read_journal(self.path / "updates.jsonl"))

    def played(self) -> Iterator[dict[str, Any]]:
        """The metrics of every episode on disk, of rollouts and evaluations."""
        for records in self._places():
            yield from records.concluded()

    def failed(self) -> list[dict[str, Any]]:
        """The episodes that were left out, of rollouts and evaluations, with the reasons."""
        return [line for records in self._places() for line in records.failed()]

    def _places(self) -> list[Records]:
        below = [*sorted(self.path.glob("rollouts/*")), *sorted(self.path.glob("evaluations/*"))]
        return [Records(place) for place in (self.path, *below)]

    def journal(self, name: str) -> Journal:
        return Journal.open(self.path / f"{name}.jsonl")

    @classmethod
    def create(
        cls, root: Path, environment: str, about: Mapping[str, Any], fill: Callable[[Path], object] | None = None
    ) -> Self:
        """Create a new folder below `root`. It isn't a run before `fill` has put all earlier records into it."""
        now = datetime.now().astimezone()
        stem = f"{now:%Y-%m-%d}-{re.sub(r'[^a-zA-Z0-9]+', '-', environment).strip('-') or 'run'}"
        whole = {"format": FORMAT, "created": now.isoformat(), "python": platform.python_version(), **about}
        with storing(f"make a run folder below {root}", "; another folder: --runs FOLDER"):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Long enough for the trackers of many machines, where a run goes by its name.
            path = root / f"{stem}-{secrets.token_hex(4)}"
            path.mkdir(mode=0o700)
        folder = cls(path, whole)
        try:
            if fill is not None:
                fill(path)
            folder.rewrite(whole)
        except StorageError:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return folder

    def rewrite(self, about: Mapping[str, Any]) -> None:
        """Replace run.json. What the run wants was said by this user, so it may be resumed without a question."""
        text = strike(json.dumps(about, indent=2, ensure_ascii=False))
        write_whole(self.path / "run.json", text + "\n")
        self.about = about
        with suppress(StorageError):  # where nothing is remembered, the run asks when it is resumed
            allow_spec(self.path, of_run(json.loads(text)))

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an existing folder. Raises with a reason if it isn't a run of this format."""
        file, fix = path / "run.json", "check that it is an agentfw run"
        try:
            about = json.loads(file.read_text("utf-8"))
            if (found := about["format"]) != FORMAT:
                newer = isinstance(found, int) and found > FORMAT
                older = "open it with the version that made it, or run its spec again"
                text = f"{path} is in format {found}; this version of agentfw reads and writes format {FORMAT}"
                raise RunFolderError(text, fix="pip install --upgrade agentfw" if newer else older)
            fix = "restore it from a copy"
            # What `agentfw runs list` shows.
            spec = about["spec"]
            int(about["episodes"]), int(about["updates"]), str(about["headline"]), str(spec["interface"])
            for choice in (spec["environment"], spec["policy"], *spec["memories"]):
                str(choice["name"])
        except FileNotFoundError:
            why = "pass the folder of a run; see: agentfw runs list"
            if not path.is_dir():
                why = "see: agentfw runs list"
            elif all(entry.name.startswith("run.json.") for entry in path.iterdir()):
                why = "its creation was interrupted; remove it, nothing is lost"
            raise RunFolderError(f"{path} is not a run folder: it has no run.json", fix=why) from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            words = f"{error} is missing" if isinstance(error, KeyError) else error
            raise RunFolderError(f"{file} can't be read: {words}", fix=fix) from None
        return cls(path, about)

    def lock(self) -> None:
        """Prevent other processes from working on this run at the same time."""
        if link := next((path for path in self.path.rglob("*") if path.is_symlink()), None):
            text = f"{link} is a link to {os.readlink(link)}, and a run writes only into its own folder"
            raise RunFolderError(text, fix="put the file itself there, or remove the link")
        with storing(f"resume {self.path}"):
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        # A process that only reads the state holds the lock for an instant.
        for wait in (0.02, 0.05, 0.1, 0.2, None):
            try:
                _lock(handle)
                break
            except OSError:
                if wait is None:
                    os.close(handle)
                    problem = f"{self.path} is in use by process {self.owner}"
                    raise RunInUseError(problem, fix="wait for it to end, or stop it") from None
                time.sleep(wait)
        self._lock = handle
        with suppress(OSError):  # the owner is useful in errors, but can't be written on a full disk
            os.ftruncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())

    @property
    def owner(self) -> str:
        """The number of the process that works on a running run."""
        with suppress(OSError):
            return (self.path / "lock").read_text(errors="replace").strip() or "unknown"
        return "unknown"

    def leave(self) -> None:
        """Say behind its number that this process is about to end, for whoever waits for the run."""
        if self._lock is not None:
            with suppress(OSError):
                os.write(self._lock, b", which ends")

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def summary(self) -> dict[str, Any] | None:
        """The record of the run's summary, if the run is done. One that can't be read is written again by a resume."""
        try:
            loaded = unsealed((self.path / "summary.json").read_text("utf-8"))
            loaded["episodes"], loaded["figures"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return loaded

    def damage(self, *, deep: bool = False) -> list[str]:
        """What is wrong with the files, in words. Only `deep` reads them, and so finds a changed byte."""
        return damage(self.path, self.planned_updates, deep=deep)

    def rewind(self, number: int) -> None:
        """Make a training what it was after one of its updates. What came later is set aside."""
        self.lock()
        try:
            rewind(self.path, number)
        finally:
            self.unlock()

    def mark_journals(self) -> None:
        """Note in the summary how the journals are now. Else a run without some lines would be a damaged one."""
        if (summary := self.summary()) is not None:
            write_whole(self.path / "summary.json", sealed({**summary, "files": journals_of(self.path)}))

    @property
    def state(self) -> str:
        """done, damaged, running, or interrupted, which can be resumed. A live run is stopped instead."""
        if (self.path / "summary.json").exists():
            return "damaged" if self.damage() else "done"
        ended = "stopped" if self.is_live else "interrupted"
        try:
            handle = os.open(self.path / "lock", os.O_RDONLY)
        except OSError:
            return ended
        try:
            _lock(handle, looks=True)
        except OSError:
            return "running"
        finally:
            os.close(handle)
        return ended


def newest_first(root: Path) -> list[str]:
    """The names of all folders that have a run.json. Those that can't be read come last."""
    began: dict[str, float] = {}
    try:
        folders = [entry.name for entry in os.scandir(root) if entry.is_dir()]
    except OSError:
        return []
    for name in folders:
        try:
            about = json.loads((root / name / "run.json").read_bytes())
            began[name] = datetime.fromisoformat(about["created"]).timestamp()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            began[name] = 0.0
    return [name for _, name in sorted(zip(began.values(), began, strict=True), reverse=True)]


def list_runs(root: Path) -> Iterator[RunFolder]:
    """The runs below a folder, newest first. Folders that can't be opened as a run are skipped."""
    for name in newest_first(root):
        with suppress(RunFolderError):
            yield RunFolder.open(root / name)


def find_run(root: Path, name: str) -> RunFolder:
    """Find a run by its path, its name, the end of its name, or `last`, or fetch it from its address."""
    if "://" in name:
        from .mirror import fetched

        return RunFolder.open(fetched(name, root))
    path = Path(name)
    if name and path.is_dir() and (len(path.parts) > 1 or (path / "run.json").exists()):
        return RunFolder.open(path)
    if name and (root / name).is_dir():
        return RunFolder.open(root / name)
    if name == "last" and (newest := next(list_runs(root), None)):
        return newest
    names = newest_first(root)
    matching = [each for each in names if name and each.endswith(name)]
    if len(matching) == 1:
        return RunFolder.open(root / matching[0])
    if matching:
        text = f'"{name}" matches {len(matching)} runs'
        raise RunFolderError(text, fix="use more of the name; see: agentfw runs list")
    # Users type the end of a name, so the nearest is searched among endings of the same length.
    known = {*names, *(each[-len(name) :] for each in names if name), *(["last"] if names else ())}
    raise UnknownNameError("run", name, known, fix=f"see: agentfw runs list (below {root})")


def _lock(handle: int, *, looks: bool = False) -> None:
    """Lock a run. Any number of processes may look at it at once, where nobody works on it."""
    try:
        import fcntl
    except ImportError:  # Windows has no flock; msvcrt locks the first byte instead
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(handle, (fcntl.LOCK_SH if looks else fcntl.LOCK_EX) | fcntl.LOCK_NB)
