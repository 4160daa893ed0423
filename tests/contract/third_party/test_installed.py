"""Plugins of strangers, from their wheels to their removal: what somebody who installs one gets to see.

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
PLUGINS = sorted(path.parent for path in Path(__file__).parent.glob("*/pyproject.toml"))
TUTORIALS = [
    page
    for page in sorted((ROOT / "docs" / "guides" / "plugins").glob("*.md"))
    if 'title="pyproject.toml"' in page.read_text("utf-8")
]
FILE = re.compile(r'^```\w+ title="(?P<path>.*?)"\n(?P<text>.*?)^```$', re.S | re.M)


def project(folder: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    return table


VERSIONS = {project(folder)["name"]: project(folder)["version"] for folder in PLUGINS}


class Installed:
    """A virtual environment with agentfw in it, and an empty folder to work in."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.work, self.wheels = folder / "work", wheels
        self.work.mkdir()
        self.programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        venv.create(folder / "venv")
        (packages,) = (folder / "venv").glob("**/site-packages")
        theirs = [one for folder in PLUGINS for one in project(folder)["dependencies"] if "agentfw" not in one]
        borrow([*project(ROOT)["dependencies"], *theirs, "pip"], packages)
        self.pip("install", "agentfw", *VERSIONS)

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
        offline = ("--no-index", "--no-compile", "--find-links", str(self.wheels)) if verb == "install" else ("--yes",)
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
    for package in (ROOT, *PLUGINS, *tutorials):
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
    listed = installed.components()
    for name, kind in (("postcards", "memory"), ("stamp", "tool")):
        row = listed[name]
        expected = (kind, "agentfw-postcards", VERSIONS["agentfw-postcards"])
        assert (row["kind"], row["distribution"], row["version"]) == expected

    command = ("run", "inbox", "--memory", "postcards", "--tool", "stamp", "--set", "episodes=2", "--runs", "runs")
    shown = installed.agentfw(*command, "--json")

    assert json.loads(shown.stdout)
    about = json.loads((installed.only_run() / "run.json").read_text("utf-8"))
    assert f"agentfw-postcards=={VERSIONS['agentfw-postcards']}" in about["plugins"].values()
    cards = list(installed.work.glob("runs/*/postcards/*/*.json"))
    assert len(cards) == 2, "the memory learned one card from each episode"
    report = json.loads(installed.agentfw("plugins", "check", "agentfw-postcards", "--json").stdout)
    assert {row["component"] for row in report if row["passed"]} == {"postcards", "stamp"}
    assert all(row["passed"] for row in report)

    installed.pip("uninstall", "agentfw-postcards")

    assert not {"postcards", "stamp"} & installed.components().keys()
    refused = installed.agentfw(*command, expect=2)
    assert '"postcards"' in refused.stderr
    assert installed.only_run(), "what can't be run leaves no folder behind"

    installed.pip("install", "agentfw-postcards")
    assert "postcards" in installed.components()


def test_a_plugin_brings_a_command(installed: Installed) -> None:
    assert "ledger" in installed.agentfw("--help").stdout

    installed.agentfw("run", "inbox", "--episodes", "2", "--tracker", "ledger", "--runs", "runs")
    shown = [json.loads(line) for line in installed.agentfw("ledger").stdout.splitlines()]

    assert {row["run"] for row in shown} == {installed.only_run().name}
    assert "utility" in {row["metric"] for row in shown}


def test_an_extra_that_is_missing_is_named_before_any_work(installed: Installed) -> None:
    for words in (("run", "inbox", "--reward", "circles", "--runs", "runs"), ("plugins", "check", "circles")):
        refused = installed.agentfw(*words, expect=3)
        told = " ".join((refused.stdout + refused.stderr).split())
        assert 'needs the extra "graphs" (no module networkx)' in told
        assert 'pip install "agentfw-circles[graphs]"' in told

    assert not (installed.work / "runs").exists()


def test_a_store_of_the_skill_graph_is_found_by_its_scheme(installed: Installed) -> None:
    program = (
        "from agentfw_memory import SkillGraph\n"
        "with SkillGraph.open('duckdb://skills.duckdb', tenant='team', embedder='hash') as graph:\n"
        "    print(graph.add(owner='ana', text='tea at noon').id)"
    )

    assert installed.run("python", "-c", program).stdout == "s2\n"
    assert (installed.work / "skills.duckdb").is_file()


def test_a_plugin_for_a_newer_agentfw_is_refused_and_the_others_go_on(installed: Installed) -> None:
    others = installed.agentfw("run", "inbox", "--episodes", "1", "--runs", "runs")
    selected = installed.agentfw("run", "inbox", "--tool", "weekday", "--runs", "runs", expect=3)

    told = "plugin weekday of agentfw-weekday 5.0.0 is written for plugin API 3, and this agentfw supports 1"
    for answer in (others, selected):
        assert told in " ".join(answer.stderr.split())
    assert "pip install --upgrade agentfw" in selected.stderr


def test_the_packages_of_the_tutorials_are_installed_and_work_together(
    installed: Installed, tutorials: list[Path]
) -> None:
    names = [project(folder)["name"] for folder in tutorials]
    installed.pip("install", *names)
    chosen = ("--policy", "garden-lazy", "--reward", "garden-thrift", "--memory", "cards")
    try:
        listed = installed.components()
        installed.agentfw("run", "garden", *chosen, "--episodes", "2", "--runs", "runs")
    finally:
        installed.pip("uninstall", *names)

    assert {listed[name]["distribution"] for name in ("garden", "cards")} < set(names)
    folder = installed.only_run()
    assert (folder / "refused.txt").is_file(), "the hook was called"


def test_what_is_installed_can_begin_a_plugin(installed: Installed) -> None:
    """The templates are in the wheel, and need nothing of the source tree."""
    written = json.loads(installed.agentfw("plugins", "new", "agentfw-crane-fly", "--kind", "tool", "--json").stdout)

    assert len(written["files"]) == 9
    assert (installed.work / "agentfw-crane-fly" / "agentfw_crane_fly" / "units.py").is_file()


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
