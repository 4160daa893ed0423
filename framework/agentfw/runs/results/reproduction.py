"""Playing a run again: whether the records are equal, and what differs first.

Two runs of one spec are equal if every episode, figure and version of the one is in the other, to the last digit.
Durations, speeds and sizes of processes aren't compared. Of a training, only the first difference is told, since all
that follows from it differs, too.
"""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import EndpointError, RunFolderError, UsageError
from ...host import Host
from ...host.trust import of_run, require_trusted, require_trusted_folder
from ..records.folder import RunFolder
from ..records.journal import read_journal, write_whole
from ..records.package import Lock, lock_of, read_lock
from ..run import Run
from ..spec.run_spec import parse_spec
from ..spec.values import apply_assignments, from_json


@dataclass(frozen=True, slots=True)
class Comparison:
    compared: int  # how many records the first run has
    first: str  # the first record that isn't the same, and what of it differs. Empty if all are equal
    rounding: float | None  # of a training's figures that differ first: the share that is equal but for rounding

    @property
    def equal(self) -> bool:
        return not self.first


def content_of(folder: RunFolder) -> Iterator[tuple[str, dict[str, Any]]]:
    """Everything that a run brought about, by name, in order: of a training, update by update."""
    if not folder.planned_updates:
        yield from _played(folder.path, "")
        return
    yield from _played(folder.path / "evaluations" / "00000", "evaluation 0, ")
    for line in read_journal(folder.path / "updates.jsonl"):
        number = int(line["update"])
        yield from _played(folder.path / "rollouts" / f"{number:05d}", f"update {number}, ")
        figures = {part: some for part, some in line.items() if part not in ("seconds", "speed")}
        for part in ("learner", "served"):
            kept = [name for name in line[part] if not any(word in name for word in ("second", "memory", "workers"))]
            figures[part] = {name: line[part][name] for name in kept}
        yield f"update {number}: figures", figures
        home = folder.path / "learner" / f"{number:05d}"
        files = [file for file in sorted(home.rglob("*")) if file.is_file()]
        digests = {str(file.relative_to(home)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
        yield f"update {number}: version", digests
        yield from _played(folder.path / "evaluations" / f"{number:05d}", f"evaluation {number}, ")


def _played(place: Path, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    tasks = ((line["task"], line) for line in read_journal(place / "episodes.jsonl"))
    episodes = {f"episode {task['index']:05d}-{task['sample']}": line for task, line in tasks}
    figures = {f"figures of {line['episode']}": line for line in read_journal(place / "metrics.jsonl")}
    for found in (episodes, figures):
        yield from ((f"{where}{name}", found[name]) for name in sorted(found))


def compare_records(one: RunFolder, other: RunFolder) -> Comparison:
    theirs, compared = dict(content_of(other)), 0
    for name, record in content_of(one):
        compared += 1
        # Old versions are removed while a training goes on, so one that isn't there says nothing.
        if name.endswith(": version") and not (record and theirs.get(name)):
            continue
        if name not in theirs:
            return Comparison(compared, f"{name} isn't there", None)
        if record != theirs[name]:
            leaves = [*_leaves(record, theirs[name])]
            where = next((path for path, mine, its in leaves if mine is not its and mine != its), "")
            pairs = [(mine, its) for _, mine, its in leaves]
            figures = [pair for pair in pairs if {*map(type, pair)} <= {int, float}]
            near = [pair for pair in figures if math.isclose(*pair, rel_tol=1e-5, abs_tol=1e-8)]
            share = len(near) / len(figures) if figures and one.planned_updates else None
            return Comparison(compared, f"{name}: {where}", share)
    return Comparison(compared, "", None)


def _leaves(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            yield from _leaves(one.get(key), other.get(key), f"{path}.{key}".removeprefix("."))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (mine, its) in enumerate(zip(one, other, strict=True)):
            yield from _leaves(mine, its, f"{path}[{number}]")
    else:
        yield path, one, other


def play_again(folder: RunFolder, host: Host, root: Path, secrets: Mapping[str, Any]) -> Run:
    """A new run of the same spec below `root`, not executed yet. `secrets` are settings that run.json doesn't have."""
    about = folder.about
    if not (about["episodes"] or folder.planned_updates):
        text = f"{folder.id} was led by programs or people from outside, who can't be played again"
        raise UsageError(text, fix="pick a run of agentfw run or agentfw train: agentfw runs list")
    require_trusted(folder.path, of_run(about))
    spec = from_json(about.get("began_with", about["spec"]))
    if (values := _with_copies(spec, folder)) != spec:
        require_trusted_folder(folder.path / "package")
    values = apply_assignments(values, secrets)
    return Run.create(parse_spec(values, f"{folder.path}/run.json"), host, root)


def added_updates(folder: RunFolder) -> list[int]:
    """The updates that a training was given after its first plan, step by step: each step ended with an evaluation."""
    numbers = {int(path.name) for path in folder.path.glob("evaluations/*")} | {folder.planned_updates}
    return sorted(number for number in numbers if number and number > folder.updates_at_first)


def _with_copies(value: Any, folder: RunFolder) -> Any:
    """The spec with the run's own copy of each plugin of one file that isn't where it was."""
    if isinstance(value, dict):
        return {key: _with_copies(inner, folder) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_copies(inner, folder) for inner in value]
    file, colon, name = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    path = Path(file) if colon else Path(str(value))
    copy = folder.path / "package" / path.name
    is_replaced = path.suffix == ".py" and not path.exists() and copy.exists()
    return f"{copy}{colon}{name if colon else ''}" if is_replaced else value


def installation_differences(folder: RunFolder) -> list[str]:
    """What this installation has in another form than the run, and with what else the run was resumed."""
    lock = read_lock(folder.path)
    origins = dict(folder.about.get("distributions", {}))
    here = lock_of({**{name: {} for name in lock.distributions}, **origins})
    here_too = {name: folder.path / "package" / name for name in lock.files}
    copies = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in here_too.items() if file.is_file()}
    now = Lock(here.python, here.system, here.processor, here.distributions, {**copies, **here.files})
    return lock.differences(now) + [f"the run was resumed with something else, {line}" for line in folder.segments]


def environment_of(folder: RunFolder, root: Path) -> Path:
    """A virtual environment with what the run was played with, made below `root` if it isn't there."""
    lock = read_lock(folder.path)
    if left_out := [f"{name}: {locked.left_out}" for name, locked in lock.distributions.items() if locked.left_out]:
        problem = f"the run's package lacks {'; '.join(left_out)}"
        raise RunFolderError(problem, fix="install it by hand, and leave --env out")
    lines = "\n".join(lock.requirements(folder.path.resolve() / "package")) + "\n"
    known = [lock.python, *(f"{name} {one.version} {one.digest}" for name, one in lock.distributions.items())]
    home = root / ".environments" / hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]
    python = home / "bin" / "python"
    if (home / "complete").exists():
        return python
    if lock.python.rpartition(".")[0] != ".".join(map(str, sys.version_info[:2])):
        text = f"the run was played with Python {lock.python}, and this is {sys.version.partition(' ')[0]}"
        raise UsageError(text, fix=f"start agentfw with Python {lock.python.rpartition('.')[0]}")
    require_trusted_folder(folder.path / "package")
    home.mkdir(parents=True, exist_ok=True)
    write_whole(home / "requirements.txt", lines)
    install = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(home / "requirements.txt")]
    for command in ([sys.executable, "-m", "venv", str(home)], install):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")] or [done.stderr[-300:]]
            text = f"the run's environment can't be made: {errors[-1].removeprefix('ERROR: ').strip()}"
            raise EndpointError(text, fix=f"see what it needs: {home / 'requirements.txt'}")
    write_whole(home / "complete", "")
    return python
