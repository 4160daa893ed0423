"""A plugin of a stranger, from its wheel to its removal: what somebody who installs it gets to see.

Everything is real: wheels that are built here, a fresh virtual environment, pip, and the command line in processes of
its own. Nothing is downloaded. The environment has the declared dependencies of agentfw, borrowed from the one that the
tests run in, and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
import venv
from contextlib import chdir
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from hatchling.build import build_wheel
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
POSTCARDS = Path(__file__).parent / "agentfw-postcards"
TUTORIALS = [
    page
    for page in sorted((ROOT / "docs" / "guides" / "plugins").glob("*.md"))
    if 'title="pyproject.toml"' in page.read_text("utf-8")
]
FILE = re.compile(r'^```\w+ title="(?P<path>.*?)"\n(?P<text>.*?)^```$', re.S | re.M)


def project(folder: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    return table


VERSION = project(POSTCARDS)["version"]

pytestmark = pytest.mark.slow


class Installed:
    """A virtual environment with agentfw in it, and an empty folder to work in."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.work, self.wheels = folder / "work", wheels
        self.work.mkdir()
        self.programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        venv.create(folder / "venv")
        (packages,) = (folder / "venv").glob("**/site-packages")
        borrow([*project(ROOT)["dependencies"], "pip"], packages)
        self.pip("install", "agentfw", "agentfw-postcards")

    def run(self, *command: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTFW", "PYTHON"))}
        result = subprocess.run(
            [str(self.programs / command[0]), *command[1:]],
            cwd=self.work,
            env=inherited,
            capture_output=True,
            text=True,
            check=False,
        )
        shown = f"{' '.join(command)} ended with {result.returncode}\n{result.stdout}\n{result.stderr}"
        assert result.returncode == expect, shown
        assert "Traceback" not in result.stderr, shown
        return result

    def agentfw(self, *words: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run("agentfw", *words, expect=expect)

    def pip(self, verb: str, *requirements: str) -> None:
        install = ("--no-index", "--no-compile", "--find-links", str(self.wheels))
        offline = install if verb == "install" else ("--yes",)
        self.run("python", "-m", "pip", "--disable-pip-version-check", verb, "--quiet", *offline, *requirements)

    def components(self) -> dict[str, dict[str, Any]]:
        rows = json.loads(self.agentfw("plugins", "list", "--json").stdout)
        return {row["name"]: row for row in rows}

    def only_run(self) -> Path:
        """The folder of the one run that there is."""
        (about,) = self.work.glob("runs/*/run.json")
        return about.parent


def borrow(requirements: list[str], packages: Path) -> None:
    """Link the installed distributions that these requirements need into another environment."""
    wanted, found = [Requirement(text) for text in requirements], set[str]()
    while wanted:
        requirement = wanted.pop()
        if requirement.name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(requirement.name)
        installed = distribution(requirement.name)
        wanted += [Requirement(text) for text in installed.requires or ()]
        for top in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(installed.locate_file(top))))


@pytest.fixture(scope="module")
def tutorials(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The packages that the tutorials build, as a reader has them on disk."""
    folder = tmp_path_factory.mktemp("tutorials")
    for page in TUTORIALS:
        for match in FILE.finditer(page.read_text("utf-8")):
            file = folder / page.stem / match["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(match["text"], encoding="utf-8")
    return [folder / page.stem for page in TUTORIALS]


@pytest.fixture(scope="module")
def wheels(tutorials: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for package in (ROOT, POSTCARDS, *tutorials):
        with chdir(package):
            build_wheel(str(folder))
    return folder


@pytest.fixture(scope="module")
def environment(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"), wheels)


@pytest.fixture
def installed(environment: Installed, tmp_path: Path) -> Installed:
    """The environment that all tests share, with a folder of its own for each."""
    environment.work = tmp_path
    return environment


def test_a_plugin_is_installed_listed_used_and_removed(installed: Installed) -> None:
    row = installed.components()["postcards"]
    assert (row["kind"], row["distribution"], row["version"]) == ("memory", "agentfw-postcards", VERSION)

    command = ("run", "inbox", "--memory", "postcards", "--set", "episodes=2", "--runs", "runs")
    shown = installed.agentfw(*command, "--json")

    assert json.loads(shown.stdout)
    about = json.loads((installed.only_run() / "run.json").read_text("utf-8"))
    assert f"agentfw-postcards=={VERSION}" in about["plugins"].values()
    cards = installed.agentfw("postcards").stdout.splitlines()
    assert len(cards) == 2, "the memory learned one card from each episode"
    report = json.loads(installed.agentfw("plugins", "check", "agentfw-postcards", "--json").stdout)
    assert {row["component"] for row in report if row["passed"]} == {"postcards"}
    assert all(row["passed"] for row in report)

    installed.pip("uninstall", "agentfw-postcards")

    refused = installed.agentfw(*command, expect=2)
    assert '"postcards"' in refused.stderr
    assert installed.only_run(), "what can't be run leaves no folder behind"


def test_the_packages_of_the_tutorials_work_together(installed: Installed, tutorials: list[Path]) -> None:
    names = [project(folder)["name"] for folder in tutorials]
    installed.pip("install", *names)
    chosen = ("--policy", "garden-lazy", "--reward", "garden-thrift", "--memory", "cards")

    installed.agentfw("run", "garden", *chosen, "--episodes", "2", "--runs", "runs")

    folder = installed.only_run()
    plugins = json.loads((folder / "run.json").read_text("utf-8"))["plugins"].values()
    assert {plugin.partition("==")[0] for plugin in plugins} >= {*names} - {"agentfw-shop"}, "a shop has defaults alone"
    assert (folder / "refused.txt").is_file(), "the hook was called"


def test_the_wheel_holds_the_five_packages_and_nothing_beside_them(wheels: Path) -> None:
    (wheel,) = wheels.glob("agentfw-0*.whl")
    names = ZipFile(wheel).namelist()

    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"agentfw", "agentfw_plugins", "agentfw_memory", "agentfw_rewardmodels", "agentfw_cli"}
    assert all(f"{top}/py.typed" in names for top in tops)
    templates = (ROOT / "framework").rglob("*.tmpl")
    assert {name for name in names if name.endswith(".tmpl")} == {
        path.relative_to(ROOT / "framework").as_posix() for path in templates
    }
