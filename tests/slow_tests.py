"""Which tests are slow: a list that is recorded, so that it can't drift from what tests really take.

A test is slow when it takes more than a tenth of a second of the processor, its children included, or needs a library
whose import alone takes seconds. Without the slow ones (`-m "not slow and not nightly"`) these libraries can't be
imported, and files in which all tests are slow aren't opened. `pytest -n auto --record-slow` records the tests that
run; with `-m "not slow and not nightly"` it adds those that turn out to be slow once the others are gone.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest

LIST = Path(__file__).with_suffix(".txt")
SECONDS = 0.1
LEFT_OUT = ("torch", "transformers", "peft", "anthropic", "langgraph", "mlflow", "ray")
_BEGAN = pytest.StashKey[float]()
_taken: dict[str, bool] = {}
"""The tests that ran, and whether each is slow."""


@cache
def slow() -> frozenset[str]:
    """Files, tests with all their cases, and single cases."""
    return frozenset(LIST.read_text("utf-8").split("\n")) if LIST.exists() else frozenset()


def leaves_out_slow(config: pytest.Config) -> bool:
    return "not slow" in config.option.markexpr


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-slow", action="store_true", help=f"write down in {LIST.name} which tests are slow")


def pytest_configure(config: pytest.Config) -> None:
    if leaves_out_slow(config):
        for name in LEFT_OUT:
            sys.modules[name] = None  # type: ignore[assignment]  # what the import system takes for "there is none"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if leaves_out_slow(config) and collection_path.is_relative_to(config.rootpath):
        return collection_path.relative_to(config.rootpath).as_posix() in slow() or None
    return None


def pytest_itemcollected(item: pytest.Item) -> None:
    if not slow().isdisjoint((item.nodeid, item.nodeid.partition("[")[0], item.nodeid.partition("::")[0])):
        item.add_marker("slow")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEGAN] = sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    report.user_properties.append(("processor", sum(os.times()[:4]) - item.stash[_BEGAN]))
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.nodeid and not report.passed and _needs_left_out(report):
        _taken[report.nodeid] = True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    took = (value for name, value in report.user_properties if name == "processor" and isinstance(value, float))
    is_slow = max(took, default=0.0) > SECONDS or (not report.passed and _needs_left_out(report))
    _taken[report.nodeid] = _taken.get(report.nodeid, False) or is_slow


def _needs_left_out(report: pytest.CollectReport | pytest.TestReport) -> bool:
    return any(name in str(report.longrepr) for name in LEFT_OUT)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.option.record_slow and not hasattr(session.config, "workerinput"):
        anew = set() if leaves_out_slow(session.config) else {name.partition("::")[0] for name in _taken}
        kept = {name for name in slow() if name.partition("::")[0] not in anew}
        LIST.write_text("\n".join(sorted(kept | _shortest(_taken))).strip() + "\n", "utf-8")


def _shortest(taken: dict[str, bool]) -> set[str]:
    """The slow tests: one name where all in a file, or all cases of a test, are slow."""
    all_slow = defaultdict[str, bool](lambda: True)
    for name, is_slow in taken.items():
        for whole in (name.partition("[")[0], name.partition("::")[0]):
            all_slow[whole] &= is_slow
    return {
        next((whole for whole in (name.partition("::")[0], name.partition("[")[0]) if all_slow[whole]), name)
        for name, is_slow in taken.items()
        if is_slow
    }
