"""What ships is registered by the folder that it is in, and registering it imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import agentfw_plugins
from agentfw import Component
from agentfw.component import KINDS
from agentfw.errors import MissingExtraError
from agentfw.testing import fresh_host
from agentfw_plugins.plugin import plugin

PACKAGE = Path(agentfw_plugins.__file__).parent
HEAVY = {"pydantic", "numpy", "torch", "httpx", "aiohttp", "rich", "click", "yaml", "asyncio"}


def test_registering_everything_imports_nothing_heavy() -> None:
    code = "import sys, agentfw_plugins.plugin; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not HEAVY & set(done.stdout.split())


def test_every_world_registers_an_environment_of_its_name() -> None:
    found = {path.stem for path in (PACKAGE / "worlds").glob("*.py")} - {"__init__", "registration"}
    found |= {path.parent.name for path in (PACKAGE / "worlds").glob("*/environment.py")}

    assert {component.name for component in plugin.registrations["worlds"].environments} == found


def test_every_spec_that_ships_has_a_name() -> None:
    named = {Path(spec.path) for spec in fresh_host(builtins=True, strict=False).specs().values()}

    assert named == set(PACKAGE.rglob("specs/*.toml"))


@pytest.mark.parametrize(
    ("kind", "component"),
    [
        (kind, component)
        for kind, about in KINDS.items()
        for folder in plugin.registrations.values()
        for component in getattr(folder, about.plural)
        if component.needs
    ],
    ids=str,
)
def test_a_missing_library_names_its_extra(kind: str, component: Component, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, component.needs[-1], None)

    with pytest.raises(MissingExtraError) as caught:
        fresh_host(builtins=True, strict=False).create(kind, component.name, {})

    assert f"[{component.extra}]" in caught.value.fix
