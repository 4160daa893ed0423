"""What somebody who begins a plugin relies on: what is written works, is clean, and is all or nothing."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentfw.component import KINDS
from agentfw.errors import UsageError
from agentfw.scaffold import scaffold
from agentfw.testing import check_component, fresh_host, run_contract

NOBODY = fresh_host()
ALL = [*KINDS, "world"]
NAME = "agentfw-crane-fly"
# What the project itself is held to, less its own ignores.
RULES = "E,F,W,I,B,UP,SIM,RUF,PIE,PT,C4,RET,PERF,S301,S307"


def tool(*arguments: str, folder: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    # Its own package on the path, as after an installation; nothing of this run of pytest.
    place = path or str(folder)
    environment = {**os.environ, "PYTHONPATH": place, "MYPYPATH": place, "PYTEST_ADDOPTS": ""}
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A package of each kind, with about the longest name that there may be."""
    root = tmp_path_factory.mktemp("packages")
    names = {kind: f"agentfw-{kind}-long-".ljust(49, "x") for kind in ALL}
    for kind, name in names.items():
        scaffold(name, kind, root, host=NOBODY)
    return {kind: root / name for kind, name in names.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_scaffold_keeps_its_contract(kind: str, packages: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(packages[kind]))
    module = f"{packages[kind].name.replace('-', '_')}.plugin"
    host = fresh_host(module)

    results = [
        *(result for offer in host.components() for result in run_contract(host, kind, offer.component.name)),
        *(check_component("plugin", lambda: importlib.import_module(module)) if kind == "hook" else ()),
    ]

    assert results
    assert [result.detail for result in results if not result.passed] == []


@pytest.mark.nightly
def test_the_tests_of_the_written_packages_pass(packages: dict[str, Path]) -> None:
    chosen = [str(package) for package in packages.values()]
    root = Path(chosen[0]).parent

    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--import-mode=importlib", "--rootdir", str(root))
    result = tool("pytest", *options, *chosen, folder=root, path=os.pathsep.join(chosen))

    assert result.returncode == 0, result.stdout
    assert "passed" in result.stdout


@pytest.mark.parametrize("arguments", [("check", "--select", RULES), ("format", "--check")])
def test_the_written_packages_are_clean(packages: dict[str, Path], arguments: tuple[str, ...]) -> None:
    result = tool("ruff", *arguments, "--no-cache", ".", folder=next(iter(packages.values())).parent)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ALL)
def test_the_written_package_has_right_types(kind: str, packages: dict[str, Path]) -> None:
    # A cache of its own: the packages have modules of the same name, such as tests.test_kettle.
    cache = str(packages[kind].parent / f"mypy-{kind}")

    result = tool("mypy", "--strict", "--cache-dir", cache, folder=packages[kind])

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "hook"])
def test_the_readme_says_how_to_install_check_and_use_it(kind: str, tmp_path: Path) -> None:
    scaffold(NAME, kind, tmp_path, host=NOBODY)

    text = (tmp_path / NAME / "README.md").read_text("utf-8")

    assert 'pip install -e ".[test]"' in text
    assert "agentfw plugins check crane-fly" in text
    assert "agentfw run" in text or "agentfw train" in text
    assert "Choose one" in text
    assert not re.search(r"\ba [aeiou]", text), "an environment, an optimizer"
    assert "$" not in text
    assert not (tmp_path / NAME / "LICENSE").exists(), "whose licence it is, is for its author to say"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "can't be the name"),
        ("../tea", "can't be the name"),
        ("t" * 60, "can't be the name"),
        ("class", "can't import"),
        ("json", "has a module called json"),
        ("PyTest", "is already installed"),
    ],
)
def test_a_name_that_can_not_be_used_is_refused(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        scaffold(name, "tool", tmp_path, host=NOBODY)

    assert caught.value.fix
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_a_component_that_is_there_is_refused(tmp_path: Path) -> None:
    host = fresh_host(builtins=True)

    with pytest.raises(UsageError, match='agentfw already offers the environment "inbox"'):
        scaffold("agentfw-inbox", "environment", tmp_path, host=host)

    assert list(tmp_path.iterdir()) == []
    assert scaffold("agentfw-inbox", "tool", tmp_path, host=host), "another kind is another matter"


def test_what_is_there_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "mine.txt").write_text("mine", "utf-8")

    with pytest.raises(UsageError, match="already exists"):
        scaffold(NAME, "tool", tmp_path, host=NOBODY)

    assert [path.name for path in (tmp_path / NAME).iterdir()] == ["mine.txt"]
