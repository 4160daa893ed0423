"""Runs the tests against a copy of the source tree that has one fault in it.

A fault counts as noticed by a test only if that test fails again alone, and passes alone without the fault: what fails
by itself, here or under load, is left out and the tests go on. A test that stands still counts as failing.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .faults import Area, Fault, Planted, Sources, plant

_PYTHON_FOLDERS = (
    "framework",
    "plugins",
    "plugins/papers",
    "plugins/calendar",
    "memory",
    "rewardmodels",
    "cli",
    "benchmarks/library",
)
_PACKAGES = (
    "agentfw",
    "agentfw_plugins",
    "agentfw_memory",
    "agentfw_rewardmodels",
    "agentfw_cli",
    "agentfw_papers",
    "agentfw_calendar",
)
_LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".venv",
    "venv",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
    "shared",
    "node_modules",
    "*.egg-info",
    "site-build",
)
_HANGS = 300.0
"""Seconds after which a test that says nothing stands still."""
_NEAR = 30
"""How many quick tests run first: those that speak most of what is changed."""
_ATTEMPTS = 5
"""How many tests that fail by themselves are left out before a fault counts as unnoticed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests made of a fault."""

    name: str
    noticed: bool
    by: str
    """The test that failed, or what there is to say of a fault that none noticed."""
    tests: str
    """`near` for the few that speak most of what was changed, `area`, or `wide`."""
    seconds: float


class Copy:
    """A copy of the source tree, with temporary files of its own. Tests run in it, and import from it."""

    def __init__(self, root: Path, folder: Path, limit: float) -> None:
        self.root = folder / "tree"
        self._temporary = folder / "t"
        self._output = folder / "output"
        self._limit = limit
        self._healthy: dict[str, bool] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._temporary.mkdir(parents=True)
        shutil.copytree(root, self.root, ignore=_LEFT_OUT, symlinks=True)
        self.sources = Sources(self.root)
        self._environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"} | {
            "PYTHONPATH": os.pathsep.join(str(self.root / name) for name in _PYTHON_FOLDERS),
            "TMPDIR": str(self._temporary),
            "PYTHONUNBUFFERED": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the tests need none, and some take seconds to import
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        self._must_be_imported()

    def _must_be_imported(self) -> None:
        files = ", ".join(f"{name}.__file__" for name in _PACKAGES)
        code = f"import {', '.join(_PACKAGES)}; print({files}, sep='\\n')"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=True)
        if others := [path for path in done.stdout.split("\n") if path and not path.startswith(str(self.root))]:
            raise RuntimeError(f"tests of the copy would import {', '.join(others)} from elsewhere")

    def fails(self, tests: Sequence[str], without: Iterable[str] = (), *, limit: float | None = None) -> str | None:
        """The first test that fails or stands still; an empty text if the time was over before; None if none does."""
        options = ["-x", "-v", "--tb=no", "-rfE", "-p", "no:cacheprovider", f"--basetemp={self._temporary / 'b'}"]
        options += ["-p", "xdist"]  # whose option stands in pyproject.toml
        command = [sys.executable, "-m", "pytest", *options, *(f"--deselect={test}" for test in without), *tests]
        with self._output.open("wb") as output:
            process = self._process = subprocess.Popen(
                command, cwd=self.root, env=self._environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            ended = self._wait(process, time.monotonic() + (limit or self._limit))
        lines = self._output.read_text("utf-8", "replace").splitlines()
        if ended == "limit":
            return ""
        if ended == "hangs":
            return next((line.split(" ")[0] for line in reversed(lines) if "::" in line), "before the first test")
        for line in lines:
            if line.startswith(("FAILED ", "ERROR ")):
                return line.partition(" ")[2].partition(" - ")[0].strip()
        if process.returncode in (0, 5):
            return None
        if "::" in "".join(lines):
            return next(line.split(" ")[0] for line in reversed(lines) if "::" in line)
        raise RuntimeError("pytest didn't start:\n" + "\n".join(lines[-20:]))

    def _wait(self, process: subprocess.Popen[bytes], until: float) -> str:
        """Wait for the end of the tests. Ends them, and what they started, at the limit or when they stand still."""
        size, since, ended = -1, time.monotonic(), ""
        while process.poll() is None and not ended:
            time.sleep(0.2)
            if (now := self._output.stat().st_size) != size:
                size, since = now, time.monotonic()
            ended = "limit" if time.monotonic() > until else "hangs" if time.monotonic() - since > _HANGS else ""
        if ended:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
        self.stop()
        return ended

    def stop(self) -> None:
        """End the tests that run here, and what they started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for number in self._database_servers():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGQUIT)

    def _database_servers(self) -> Iterator[int]:
        for path in self._temporary.glob("agentfw-postgres-*/postmaster.pid"):
            yield int(path.read_text().split()[0])

    def write(self, path: Path, text: str) -> None:
        """Write a source file, without its compiled form, which may be as new and as long as the former text."""
        path.write_text(text, "utf-8")
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)

    def passes(self, test: str) -> bool:
        """Whether a test passes alone, without any fault."""
        if test not in self._healthy:
            self._healthy[test] = self.fails([test]) is None
        return self._healthy[test]


def measure_fault(fault: Fault, area: Area, copy: Copy, *, quick: bool = False, wide: bool = False) -> Outcome:
    """Plant a fault, run the tests of its area until one notices it, and take it out again."""
    planted = plant(fault, copy.sources)
    whole = copy.sources.texts[planted.path]
    near, whole_area = _near_and_area(fault, area, planted, copy.root)
    groups = [("near", near)]
    groups += [] if quick else [("area", whole_area)]
    groups += [("wide", ["tests", "plugins/papers/tests"])] if wide else []
    began, left_out, last, over = time.monotonic(), list[str](), "area", False
    for name, tests in groups:
        last = name
        while tests and len(left_out) < _ATTEMPTS:
            copy.write(planted.path, planted.text)
            try:
                failed = copy.fails(tests, left_out)
                again = bool(failed) and copy.fails([failed or ""]) is not None
            finally:
                copy.write(planted.path, whole)
            if failed == "":
                over = True
            if not failed:
                break
            if again and copy.passes(failed):
                return Outcome(fault.name, True, failed, name, round(time.monotonic() - began, 1))
            left_out.append(failed)
    said = "; ".join([*(["the time was over"] if over else []), *(f"{test} fails by itself" for test in left_out)])
    return Outcome(fault.name, False, said, last, round(time.monotonic() - began, 1))


def _near_and_area(fault: Fault, area: Area, planted: Planted, root: Path) -> tuple[list[str], list[str]]:
    """The quick tests of an area that have most words of a fault, as a search ranks pages; and all its files.

    Names of tests are sentences here, and so is what a fault does to a user.
    """
    about = set(_words(f"{fault.name} {fault.where} {fault.suffers} {planted.path.stem}"))
    files, counts, lengths = area.files(root), dict[str, Counter[str]](), dict[str, int]()
    for path in files:
        for name, source in _quick_tests(path.read_text("utf-8")):
            test, words = f"{path.relative_to(root)}::{name}", _words(f"{path.stem} {source}")
            counts[test], lengths[test] = Counter(word for word in words if word in about), len(words)
    spread = Counter(word for some in counts.values() for word in some)
    rare = {word: math.log(len(counts) / often) for word, often in spread.items()}
    ranks = {
        test: sum(rare[word] * (1 + math.log(often)) for word, often in some.items()) / (100 + lengths[test]) ** 0.4
        for test, some in counts.items()
    }
    near = sorted(ranks, key=lambda test: -ranks[test])[:_NEAR]
    best = {test.partition("::")[0]: place for place, test in reversed(list(enumerate(near)))}
    names = [str(path.relative_to(root)) for path in files]
    return near, sorted(names, key=lambda name: best.get(name, _NEAR))


def _quick_tests(text: str) -> Iterator[tuple[str, str]]:
    """The tests of a file that aren't marked as slow, with their source."""
    if re.search(r"^pytestmark = .*(?:slow|nightly)", text, re.MULTILINE):
        return
    lines = text.splitlines()
    for node in ast.parse(text).body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and inner.name.startswith("test"):
                prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
                if not any(ast.unparse(one).endswith(("mark.slow", "mark.nightly")) for one in inner.decorator_list):
                    yield prefix + inner.name, "\n".join(lines[inner.lineno - 1 : inner.end_lineno])


def _words(text: str) -> list[str]:
    """The beginnings of its words, and of the parts of its names."""
    return [word[:6].lower() for word in re.findall(r"[A-Z]?[a-z]{2,}", text)]
