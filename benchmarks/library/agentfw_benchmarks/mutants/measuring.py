"""Runs the tests against a copy of the source tree that has one fault in it.

A fault counts as noticed by a test only if that test fails again alone, and passes alone without the fault: what fails
by itself, here or under load, is left out and the tests go on. A test that stands still counts as failing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .faults import Area, Fault, Sources, plant
from .traces import Traces

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
PACKAGES = (
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
_ATTEMPTS = 5
"""How many tests that fail by themselves are left out before a fault counts as unnoticed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests made of a fault."""

    name: str
    noticed: bool
    by: str
    """The test that failed, or what there is to say of a fault that none noticed."""
    tests: int
    """How many tests run what was changed."""
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
        files = ", ".join(f"{name}.__file__" for name in PACKAGES)
        code = f"import {', '.join(PACKAGES)}; print({files}, sep='\\n')"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=True)
        if others := [path for path in done.stdout.split("\n") if path and not path.startswith(str(self.root))]:
            raise RuntimeError(f"tests of the copy would import {', '.join(others)} from elsewhere")

    def fails(self, tests: Sequence[str], without: Iterable[str] = (), *, limit: float | None = None) -> str | None:
        """The first test that fails or stands still; an empty text if the time was over before; None if none does."""
        # The project's own options name xdist, which isn't loaded by itself here.
        plugins = ["-p", "xdist.plugin", "-p", "no:cacheprovider"]
        options = ["-x", "-v", "--tb=no", "-rfE", *plugins, f"--basetemp={self._temporary / 'b'}"]
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


def measure_fault(fault: Fault, area: Area, copy: Copy, traces: Traces) -> Outcome:
    """Plant a fault, run the tests that run what it changes until one notices it, and take it out again."""
    planted = plant(fault, copy.sources)
    whole = copy.sources.texts[planted.path]
    tests = traces.of(planted.path.relative_to(copy.root), planted.lines)
    # What tests of a file share was made under the first of them. What runs at an import, or is killed, is under none.
    files = {test.partition("::")[0]: None for test in tests} or map(str, area.files(copy.root))
    began, left_out, over = time.monotonic(), list[str](), False
    for some in (tests, list(files)):
        while some and len(left_out) < _ATTEMPTS:
            copy.write(planted.path, planted.text)
            try:
                failed = copy.fails(some, left_out)
                again = bool(failed) and copy.fails([failed or ""]) is not None
            finally:
                copy.write(planted.path, whole)
            over = over or failed == ""
            if not failed:
                break
            if again and copy.passes(failed):
                return Outcome(fault.name, True, failed, len(tests), round(time.monotonic() - began, 1))
            left_out.append(failed)
    said = "; ".join([*(["the time was over"] if over else []), *(f"{test} fails by itself" for test in left_out)])
    return Outcome(fault.name, False, said, len(tests), round(time.monotonic() - began, 1))
