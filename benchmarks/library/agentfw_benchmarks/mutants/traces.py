"""Which tests run which lines: all tests once under coverage, which notes for each line whose it was.

What a process does that a test has started is noted under that test, unless the process is killed.
"""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

SETTINGS = """
[run]
parallel = True
data_file = {data}
source_pkgs = {packages}
patch = subprocess
# The name of the test, which the processes that it starts inherit.
context = ${{PYTEST_CURRENT_TEST-}}
"""
_TEST = re.compile(r"(?:^|[|])([^|]*::.*?)(?: \\((?:setup|call|teardown)\\)|[|](?:setup|run|teardown))$")


def record_traces(root: Path, packages: Collection[str], data: Path, tests: Sequence[str] = ()) -> None:
    """Run tests in a tree, by default those of the README's command, and write down what they run."""
    settings = data.with_suffix(".settings")
    settings.write_text(SETTINGS.format(data=data, packages=",".join(packages)), "utf-8")
    options = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "auto", *options, *tests], cwd=root, check=False)


class Traces:
    """What `record_traces` has written."""

    def __init__(self, data: Path) -> None:
        self._rows = sqlite3.connect(data, check_same_thread=False)
        self._tests: dict[int, str] = {}
        for number, context in self._rows.execute("SELECT id, context FROM context"):
            if found := _TEST.search(context):
                self._tests[number] = found[1]
        self._entered = Counter[str]()
        """How many files a test enters: those that enter few are mostly quick, and say what they are about."""
        for number, files in self._rows.execute("SELECT context_id, COUNT(*) FROM line_bits GROUP BY context_id"):
            self._entered[self._tests.get(number, "")] += files

    def of(self, path: Path, lines: Collection[int]) -> list[str]:
        """The tests that run any of these lines, those that enter the fewest files first."""
        from coverage.numbits import numbits_to_nums

        rows = self._rows.execute(
            "SELECT context_id, numbits FROM line_bits JOIN file ON file.id = file_id WHERE path LIKE ?", (f"%/{path}",)
        )
        ran = {number for number, bits in rows if not {*lines}.isdisjoint(numbits_to_nums(bits))}
        found = {self._tests[number] for number in ran & self._tests.keys()}
        return sorted(found, key=lambda test: (self._entered[test], test))
