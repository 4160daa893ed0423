"""Results that are kept in the repository: what a program printed, when, where, and which source it measured.

A kept result is `results/NAME.json` beside its program. It has a digest of each folder of source that the program
imported. When a digest is another one today, the result is older than the code that it measures. A program that prints
runs of an earlier work folder has not measured today's code, so its result isn't kept unless these runs were played
with it.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from agentfw.runs import RunFolder
from agentfw.runs.results.reproduction import installation_differences

from .numbers import numbers
from .places import ROOT
from .program import SHOWN

FOLDERS = (ROOT / "benchmarks", *(ROOT / "plugins" / name / "benchmarks" for name in ("calendar", "papers")))
_RECORDER = Path(__file__).parent / "recorder"
_DIGITS = 6
_INDENTS = {"sources": 1, "shown": 1}


@dataclass(frozen=True, slots=True)
class Kept:
    """A result, and what a reader of it asks."""

    command: str
    date: str
    commit: str
    processor: str
    cores: int
    load: float
    """Programs that wanted a core when this one began. With more than there are cores, its times are too long."""
    seconds: float
    sources: dict[str, str]
    """The digest of each folder or file of source that the program imported.

    Where runs of an earlier work folder were printed, and what played them was not noted, it is that folder: such a
    result counts as changed until it is played again.
    """
    result: Any
    shown: list[str]
    """What the program prints without `--json`, where it can say both at once."""

    @property
    def words(self) -> list[str]:
        """The program and its options."""
        return shlex.split(self.command)[1:]

    @property
    def numbers(self) -> dict[str, float]:
        """All numbers of it, as JSON and as they are printed."""
        return numbers([self.result, self.shown])

    def changed(self) -> list[str]:
        """The sources that are not what they were."""
        return [name for name, digest in self.sources.items() if _digest(ROOT / name) != digest]


def kept_results() -> dict[str, Kept]:
    """All kept results by name."""
    return {path.stem: read(path) for folder in FOLDERS for path in sorted((folder / "results").glob("*.json"))}


def read(path: Path) -> Kept:
    found = json.loads(path.read_text("utf-8"))
    return Kept(**{field.name: found[field.name] for field in fields(Kept)})


def place_of(name: str, words: list[str]) -> Path:
    """Where the result of this name is kept: beside the program."""
    return (ROOT / words[0]).parent / "results" / f"{name}.json"


def keep(path: Path, one: Kept) -> None:
    """Write a result. What the program prints has a line for each of its lines, so that a change can be read."""
    path.parent.mkdir(exist_ok=True)
    lines = (f'"{name}": {json.dumps(value, indent=_INDENTS.get(name))}' for name, value in asdict(one).items())
    partial = path.with_suffix(".partial")
    partial.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    partial.replace(path)


def measure(words: list[str]) -> Kept:
    """Run a program of the repository with these options and `--json`. Raises SystemExit when it fails."""
    load, began = os.getloadavg()[0], time.monotonic()
    with tempfile.TemporaryDirectory() as modules, tempfile.NamedTemporaryFile("r", encoding="utf-8") as shown:
        path = os.pathsep.join(filter(None, [str(_RECORDER), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [sys.executable, *words, "--json"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "AGENTFW_MODULES": modules, SHOWN: shown.name},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        sources, lines = _sources(Path(modules), ROOT / words[0]), [line.rstrip() for line in shown]
        refuse_earlier_runs(_noted(Path(modules)))
    return Kept(
        command=shlex.join(["python", *words]),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        commit=_commit(),
        processor=_processor(),
        cores=os.cpu_count() or 1,
        load=round(load, 1),
        seconds=round(time.monotonic() - began, 1),
        sources=sources,
        result=_shortened(_parsed(done)),
        shown=lines,
    )


def _parsed(done: subprocess.CompletedProcess[str]) -> Any:
    """The JSON value that a program prints, or prints last. A program that misses its target may fail after that."""
    for text in (done.stdout, *done.stdout.splitlines()[-1:]):
        try:
            return json.loads(text)
        except ValueError:
            continue
    raise SystemExit(f"{done.args[1]} ended with {done.returncode} and printed no JSON; the error is above")


def _shortened(value: Any) -> Any:
    """The same with numbers of six digits: no page has more."""
    if isinstance(value, dict):
        return {name: _shortened(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_shortened(one) for one in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _noted(modules: Path) -> set[Path]:
    return {Path(line) for file in modules.iterdir() for line in file.read_text("utf-8").splitlines()}


def refuse_earlier_runs(paths: Iterable[Path]) -> None:
    """Raise SystemExit if a run that a program has read was played with other sources than those of today."""
    for file in sorted(path for path in paths if path.name == "run.json" and path.exists()):
        folder = RunFolder.open(file.parent)
        if (folder.path / "package").exists() and (changed := installation_differences(folder)):
            raise SystemExit(f"{folder.path} was played with other sources: {'; '.join(changed)}; use a new folder")


def _sources(modules: Path, program: Path) -> dict[str, str]:
    paths = {path for path in _noted(modules) if path.name != "run.json"} | {program}
    ours = {path.relative_to(ROOT) for path in paths if path.is_relative_to(ROOT) and "site-packages" not in path.parts}
    # A folder of benchmarks or tests holds programs that have nothing to do with each other.
    apart = ("benchmarks", "tests")
    names = {
        str(path if set(apart) & set(path.parts) else path.parent) for path in ours if path.parent.name != "recorder"
    }
    return {name: _digest(ROOT / name) for name in sorted(names)}


def _digest(path: Path) -> str:
    """What identifies the content of a file, or of a folder without the packages below it."""
    found = hashlib.sha256()
    for file in _files(path):
        found.update(f"{file.relative_to(path)}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:10]


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for one in sorted(path.iterdir()):
            if one.is_file():
                yield one
            elif one.name != "__pycache__" and not any(one.rglob("*.py")):
                yield from _files(one)


def _commit() -> str:
    called = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(called, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text("utf-8").splitlines() if information.is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
