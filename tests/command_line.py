"""The command, called in this process: its exit code, and what it wrote where.

Fixtures for the conftest.py of each folder that tests the command.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agentfw_cli.main import main

SITE = Path(__file__).parent / "site"


class Answer(NamedTuple):
    """What came of one command."""

    code: int
    out: str
    err: str

    @property
    def ok(self) -> Answer:
        """This answer, of a command that has to succeed."""
        assert self.code == 0, self.err
        return self

    def told(self, code: int) -> str:
        """What is on stderr of a command that has to end with this code, and in good order."""
        assert self.code == code, self.err
        assert "Traceback" not in self.err
        return self.err

    @property
    def json(self) -> Any:
        """The one JSON value on stdout."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


Agentfw = Callable[..., Answer]
Install = Callable[..., None]


@pytest.fixture
def agentfw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Agentfw:
    """Call `agentfw WORD...` in an empty folder; the plugin agentfw-laboratory is installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(SITE))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("agentfw.printing.out._EVERY_ELSEWHERE", 3600.0)  # a slow machine changes no output
    monkeypatch.setattr("agentfw.boundary.gate.tells_slow", True)  # as before, when the test is done
    for variable in ("AGENTFW_DISABLE_PLUGINS", "AGENTFW_TRACE_HOOKS", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)

    def call(*words: str) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, *capsys.readouterr())

    return call


@pytest.fixture
def chat(agentfw: Agentfw, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Agentfw:
    """Call `agentfw chat OPTION...` with these lines, the first argument, as its input."""

    def call(lines: str, *options: str) -> Answer:
        file = tmp_path / "lines.txt"
        file.write_text(lines)
        with file.open() as source:
            monkeypatch.setattr(sys, "stdin", source)
            return agentfw("chat", *options)

    return call


@pytest.fixture
def quick() -> tuple[str, ...]:
    """The words for a run that takes no time."""
    return ("run", "guessing", "--policy", "hashing", "--episodes", "3")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Put a distribution of one module on the path, until the test ends."""
    folder = tmp_path / "site"
    packages: set[str] = set()
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def put(distribution: str, entry_points: str, code: str, *, summary: str = "") -> None:
        package = distribution.replace("-", "_")
        (folder / f"{package}.py").write_text(code, encoding="utf-8")
        dist_info = folder / f"{package}-1.0.0.dist-info"
        dist_info.mkdir()
        about = f"Name: {distribution}\nVersion: 1.0.0\n" + (f"Summary: {summary}\n" if summary else "")
        (dist_info / "METADATA").write_text(about, encoding="utf-8")
        (dist_info / "entry_points.txt").write_text(entry_points, encoding="utf-8")
        sys.modules.pop(package, None)
        packages.add(package)

    yield put
    for package in packages:
        sys.modules.pop(package, None)
