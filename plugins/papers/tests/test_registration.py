"""What the papers register is all there, light to list, and what agentfw suggests to install for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import agentfw_papers
from agentfw.boundary.metadata import entry_points
from agentfw.component import KINDS
from agentfw.testing import fresh_host
from agentfw_papers.plugin import plugin
from agentfw_plugins.plugin import PAPERS

PACKAGE = Path(agentfw_papers.__file__).parent
WORLDS = sorted(path.parent.name for path in (PACKAGE / "worlds").glob("*/environment.py"))
HEAVY = {"pydantic", "numpy", "torch", "httpx", "rich", "click", "yaml", "asyncio"}
HOST = fresh_host("agentfw_papers.plugin:plugin")


def test_registering_everything_imports_nothing_heavy() -> None:
    code = "import sys; from agentfw_papers.plugin import plugin; plugin.registrations; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not HEAVY & set(done.stdout.split())


@pytest.mark.parametrize("world", WORLDS)
def test_a_world_registers_an_environment_of_its_name(world: str) -> None:
    assert [component.name for component in plugin.registrations[f"worlds.{world}"].environments] == [world]


def test_every_spec_that_ships_has_a_name() -> None:
    assert {Path(spec.path) for spec in HOST.specs().values()} == set(PACKAGE.rglob("specs/*.toml"))


def test_agentfw_knows_what_to_install_for_each_name() -> None:
    offered = {kind: {offer.component.name for offer in HOST.components(kind)} for kind in KINDS}
    offered["spec"] = set(HOST.specs())
    offered["command"] = {
        entry.name for entry in entry_points("agentfw.commands") if entry.distribution == "agentfw-papers"
    }

    assert {what: set(names) for what, names in PAPERS.offers.items()} == {
        what: names for what, names in offered.items() if names
    }
