"""Which tests run which lines: all tests once under coverage, which notes for each line whose it was.

What a process does that a test has started is noted under that test, unless the process is killed. While the tests run,
this module is a plugin of pytest, which tells coverage where each test begins.
"""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from coverage import Coverage
from coverage.numbits import numbits_to_nums

_SETTINGS = """
[run]
parallel = True
data_file = {data}
source_pkgs = {packages}
# The name of the test, which the processes that it starts inherit.
context = ${{PYTEST_CURRENT_TEST-}}
"""
_STARTED = "import coverage; coverage.process_startup()\n"
_PHASE = re.compile(r" \((setup|call|teardown)\)$")


def pytest_runtest_logstart(nodeid: str) -> None:
    if running := Coverage.current():
        running.switch_context(nodeid)


def record_traces(root: Path, packages: Collection[str], data: Path, tests: Sequence[str] = ()) -> None:
    """Run tests in a tree, by default those of the README's command, and write down what they run."""
    with tempfile.TemporaryDirectory(prefix="traces-") as name:
        folder, settings = Path(name), Path(name) / "settings"
        settings.write_text(_SETTINGS.format(data=folder / "data", packages=",".join(packages)), "utf-8")
        (folder / "sitecustomize.py").write_text(_STARTED, "utf-8")
        library = str(root / "benchmarks" / "library")
        path = os.pathsep.join([name, library, *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "-p", __name__, *tests]
        environment = {**os.environ, "COVERAGE_PROCESS_START": str(settings), "PYTHONPATH": path}
        environment.pop("PYTEST_CURRENT_TEST", None)  # that of a test which calls this
        subprocess.run(command, cwd=root, env=environment, stdout=2, check=False)  # beside the results
        whole = Coverage(data_file=str(data))
        whole.combine([str(path) for path in folder.glob("data.*")])
        whole.save()


class Traces:
    """What `record_traces` has written."""

    def __init__(self, data: Path) -> None:
        self._rows = sqlite3.connect(data)
        contexts = self._rows.execute("SELECT id, context FROM context WHERE context LIKE '%::%'")
        self._tests = {number: _PHASE.sub("", context) for number, context in contexts}
        self._entered = Counter[str]()
        """How many files a test enters: those that enter few are mostly quick, and say what they are about."""
        for number, files in self._rows.execute("SELECT context_id, COUNT(*) FROM line_bits GROUP BY context_id"):
            self._entered[self._tests.get(number, "")] += files

    def of(self, path: Path, lines: Collection[int]) -> list[str]:
        """The tests that run any of these lines, those that enter the fewest files first."""
        rows = self._rows.execute(
            "SELECT context_id, numbits FROM line_bits JOIN file ON file.id = file_id WHERE path LIKE ?", (f"%/{path}",)
        )
        ran = {number for number, bits in rows if not {*lines}.isdisjoint(numbits_to_nums(bits))}
        found = {self._tests[number] for number in ran & self._tests.keys()}
        return sorted(found, key=lambda test: (self._entered[test], test))
