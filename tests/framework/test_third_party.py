"""A stranger's plugin, from its wheel to its removal: what somebody who installs one gets to see.

Everything is real: wheels that are built here, a fresh virtual environment, pip, and the command line in processes of
its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
POSTCARDS = ROOT / "tests" / "third_party" / "agentfw-postcards"
VERSION = tomllib.loads((POSTCARDS / "pyproject.toml").read_text("utf-8"))["project"]["version"]

pytestmark = pytest.mark.slow


class Installed:
    """A virtual environment with agentfw in it, and an empty folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        venv.create(folder / "venv", with_pip=True)

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
        return result

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("python", "-m", "pip", "--disable-pip-version-check", *arguments)

    def components(self) -> dict[str, dict[str, Any]]:
        rows = json.loads(self.run("agentfw", "plugins", "list", "--json").stdout)
        return {row["name"]: row for row in rows}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for package in (ROOT, POSTCARDS):
        built = subprocess.run(
            [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(package)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def installed(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    environment = Installed(tmp_path_factory.mktemp("installed"))
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    try:
        environment.pip("install", "--quiet", *dependencies)
    except AssertionError as error:
        pytest.skip(f"the dependencies of agentfw can't be had here: {str(error).strip().splitlines()[-1]}")
    environment.pip("install", "--quiet", "--no-index", "--find-links", str(wheels), "agentfw", "agentfw-postcards")
    return environment


def test_a_plugin_is_installed_listed_used_and_removed(installed: Installed, wheels: Path) -> None:
    listed = installed.components()
    for name, kind in (("postcards", "memory"), ("stamp", "tool")):
        row = listed[name]
        assert (row["kind"], row["distribution"], row["version"]) == (kind, "agentfw-postcards", VERSION)

    command = ("agentfw", "run", "inbox", "--memory", "postcards", "--tool", "stamp", "--set", "episodes=2")
    shown = installed.run(*command, "--runs", "runs", "--json")

    assert json.loads(shown.stdout)
    (about,) = installed.work.glob("runs/*/run.json")
    assert f"agentfw-postcards=={VERSION}" in json.loads(about.read_text("utf-8"))["plugins"].values()
    cards = list(installed.work.glob("postcards/*/*.json"))
    assert len(cards) == 2, "the memory learned one card from each episode"

    installed.pip("uninstall", "--yes", "--quiet", "agentfw-postcards")

    assert not {"postcards", "stamp"} & installed.components().keys()
    refused = installed.run(*command, "--runs", "runs", expect=2)
    assert '"postcards"' in refused.stderr
    assert "Traceback" not in refused.stderr
    assert len(list(installed.work.glob("runs/*"))) == 1, "what can't be run leaves no folder behind"

    installed.pip("install", "--quiet", "--no-index", "--find-links", str(wheels), "agentfw-postcards")
    assert "postcards" in installed.components()


def test_the_plugin_keeps_its_promises_where_it_is_installed(installed: Installed) -> None:
    for name in ("postcards", "stamp"):
        report = json.loads(installed.run("agentfw", "plugins", "check", name, "--json").stdout)
        assert report
        assert all(row["passed"] for row in report)


def test_what_is_installed_can_begin_a_plugin(installed: Installed) -> None:
    """The templates are in the wheel, and need nothing of the source tree."""
    written = json.loads(
        installed.run("agentfw", "plugins", "new", "agentfw-crane-fly", "--kind", "tool", "--json").stdout
    )

    assert len(written["files"]) == 9
    assert (installed.work / "agentfw-crane-fly" / "agentfw_crane_fly" / "units.py").is_file()


def test_the_wheel_holds_the_five_packages_and_nothing_beside_them(wheels: Path) -> None:
    from zipfile import ZipFile

    (wheel,) = wheels.glob("agentfw-0*.whl")
    names = ZipFile(wheel).namelist()

    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"agentfw", "agentfw_plugins", "agentfw_memory", "agentfw_rewardmodels", "agentfw_cli"}
    assert all(f"{top}/py.typed" in names for top in tops)
    assert len([name for name in names if name.endswith(".tmpl")]) == 22
