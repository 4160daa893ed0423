"""`agentfw --help` imports nothing that it does not need, and costs next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentfw_cli.main import _OWN, _place

SITE = Path(__file__).parents[1] / "site"
HEAVY = ("torch", "numpy", "pydantic", "rich", "httpx", "pluggy", "PIL", "asyncio")
CODE = """
import sys
from agentfw_cli.main import main
try:
    main({words!r})
except SystemExit:
    pass
print(*sorted(sys.modules), file=sys.stderr)
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SITE), "PYTHONDONTWRITEBYTECODE": ""}


def imported(*words: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    code = CODE.format(words=list(words))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True, timeout=60
    )
    assert "Usage: agentfw" in done.stdout
    return set(done.stderr.split())


def test_help_imports_nothing_heavy_and_no_plugin() -> None:
    modules = imported("--help")

    assert not modules & set(HEAVY)
    assert not [name for name in modules if name.startswith(("agentfw_plugins", "agentfw_laboratory"))]


@pytest.mark.parametrize("command", [*filter(_place, _OWN)])
def test_the_help_of_a_command_imports_nothing_heavy(command: str) -> None:
    modules = imported(command, "--help")

    assert not modules & (set(HEAVY) - {"asyncio"}), "asyncio is Python's own, and `run` is nothing without it"
