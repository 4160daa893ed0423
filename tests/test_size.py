"""A ratchet: the sizes in `size_ceilings.toml` may only get smaller.

Each figure is measured and compared with its ceiling. Whoever makes something smaller lowers the ceiling in the same
change; whoever raises one adds a comment to its line that says what for.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from test_import_rules import FOLDERS, ROOT, imported_modules, modules, sources

CEILINGS = tomllib.loads((Path(__file__).parent / "size_ceilings.toml").read_text("utf-8"))
SLACK = 0.05
"""The share by which a figure may be below its ceiling before that has to be lowered."""
SHORT = 100
"""A file with fewer lines is seldom a mechanism of its own."""
CORE = ("agentfw", "agentfw_plugins", "agentfw_memory", "agentfw_rewardmodels", "agentfw_cli")


def lines_of(files: Iterable[Path]) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in files)


def nouns() -> list[Path]:
    """The modules at the top of the framework, without what Python itself asks for."""
    top = sorted((ROOT / "framework" / "agentfw").glob("*.py"))
    return [path for path in top if not path.name.startswith("__")]


def pages() -> list[Path]:
    """The documentation that is written by hand."""
    folders = [ROOT / "docs", *(ROOT / "plugins").glob("*/docs")]
    written = [page for folder in folders for page in folder.rglob("*.md")]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *written]


@cache
def floors() -> Mapping[str, int]:
    """The most modules of each folder that import one another in a row: as many files are read to understand one."""
    known = modules()
    graph = {name: imported_modules(name, *place, known) for name, place in known.items()}
    folders: dict[str, set[str]] = {}
    for name, (path, _) in known.items():
        folders.setdefault(path.parent.relative_to(ROOT).as_posix(), set()).add(name)
    return {folder: longest_row(inside, graph) for folder, inside in folders.items()}


def longest_row(inside: Collection[str], graph: Mapping[str, Collection[str]]) -> int:
    """The most of these nodes in a row."""
    between = {node: [other for other in graph[node] if other in inside] for node in inside}
    row: dict[str, int] = {}
    for node in TopologicalSorter(between).static_order():
        row[node] = 1 + max((row[other] for other in between[node]), default=0)
    return max(row.values())


MEASURES: dict[str, Callable[[], int]] = {
    **{f"lines.{name}": lambda name=name: lines_of(sources(name)) for name in FOLDERS},  # type: ignore[misc]
    "lines.tests": lambda: lines_of([*ROOT.glob("tests/**/*.py"), *ROOT.glob("plugins/*/tests/**/*.py")]),
    "lines.benchmarks": lambda: lines_of(
        [*ROOT.glob("benchmarks/**/*.py"), *ROOT.glob("plugins/*/benchmarks/**/*.py")]
    ),
    "files.short": lambda: sum(lines_of([path]) < SHORT for name in CORE for path in sources(name)),
    "nouns.files": lambda: len(nouns()),
    "nouns.lines": lambda: lines_of(nouns()),
    "floors.highest": lambda: max(floors().values()),
    "floors.nouns": lambda: floors()["framework/agentfw"],
    "words.docs": lambda: sum(len(page.read_text("utf-8").split()) for page in pages()),
}


@pytest.mark.parametrize("name", MEASURES)
def test_nothing_grows_and_a_ceiling_comes_down_with_what_is_below_it(name: str) -> None:
    group, _, key = name.partition(".")
    ceiling, size = CEILINGS[group][key], MEASURES[name]()

    assert size <= ceiling, "make something smaller, or raise the ceiling and say there what for"
    assert ceiling * (1 - SLACK) <= size + 1, f"lower the ceiling of {name} to {size}"


def test_every_ceiling_is_of_something_measured() -> None:
    assert {f"{group}.{key}" for group, keys in CEILINGS.items() for key in keys} == set(MEASURES)


def test_the_longest_row_of_imports_is_found() -> None:
    graph = {"a": ["b", "c"], "b": ["c"], "c": ["d", "elsewhere"], "d": [], "e": [], "elsewhere": ["f"], "f": []}

    assert longest_row({"a", "b", "c", "d", "e"}, graph) == 4
