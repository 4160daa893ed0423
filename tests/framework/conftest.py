"""Makes plugins as real files on disk: a package and its dist-info, on a `sys.path` of the test's own.

def test_something(make_plugin):
    make_plugin("agentfw-notes", "@hookimpl\\ndef agentfw_tools(): return [Component('dice', 'x:Dice', '')]")
"""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HEAD = "from agentfw import Component, hookimpl\nfrom agentfw.hookspecs import NamedSpec\n"
_numbers = itertools.count()

SITE = Path(__file__).parents[1] / "site"

MakePlugin = Callable[..., str]
"""make_plugin(distribution, code, *, name, version, value, entry_points, files) -> the name of the plugin's module."""


@pytest.fixture
def laboratory(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plays runs; the plugin agentfw-laboratory is installed."""
    monkeypatch.syspath_prepend(str(SITE))
    return importlib.import_module("agentfw_laboratory.playing")


@pytest.fixture
def trainings(laboratory: Any) -> Any:
    """Trains, and says what a training left; the plugin agentfw-laboratory is installed."""
    return importlib.import_module("agentfw_laboratory.training")


@pytest.fixture
def bandit(laboratory: Any) -> Any:
    """The world, policy, optimizer and learner of these trainings, for tests that let one of them go wrong."""
    return importlib.import_module("agentfw_laboratory.bandit")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for distributions, first on `sys.path`; agentfw's own plugins can't be seen."""
    folder = tmp_path / "site"
    # The first of two equally named distributions wins: these empty ones hide the plugins of this repository.
    for name in ("agentfw-0.1.0", "agentfw_calendar-0.1.0", "agentfw_papers-0.1.0"):
        (folder / f"{name}.dist-info").mkdir(parents=True)
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for variable in ("AGENTFW_DISABLE_PLUGINS", "AGENTFW_TRACE_HOOKS"):
        monkeypatch.delenv(variable, raising=False)
    yield folder
    for module in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]


@pytest.fixture
def make_plugin(site: Path) -> MakePlugin:
    """Install a plugin of one module (`code`), with `files` beside it in its package."""

    def make(
        distribution: str,
        code: str = "",
        *,
        name: str = "",
        version: str = "1.0.0",
        value: str = "{module}",
        entry_points: str | bytes = "",
        files: dict[str, str] | None = None,
    ) -> str:
        # A number makes each module's name new: a name that was imported once stays in Python's caches.
        package = f"{distribution.replace('-', '_')}_{next(_numbers)}"
        (site / package).mkdir()
        (site / package / "__init__.py").write_text("", encoding="utf-8")
        for file, text in {"plugin.py": HEAD + code, **(files or {})}.items():
            (site / package / file).write_text(text.replace("{package}", package), encoding="utf-8")
        dist_info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
        dist_info.mkdir()
        (dist_info / "METADATA").write_text(f"Name: {distribution}\nVersion: {version}\n", encoding="utf-8")
        module = f"{package}.plugin"
        content = entry_points or f"[agentfw]\n{name or distribution} = {value.replace('{module}', module)}\n"
        content = content if isinstance(content, bytes) else content.replace("{package}", package).encode()
        (dist_info / "entry_points.txt").write_bytes(content)
        importlib.invalidate_caches()
        return module

    return make
