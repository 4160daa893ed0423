"""`agentfw --help` imports nothing that it does not need, and costs next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from agentfw_cli.main import _OWN, _place

SITE = Path(__file__).parents[1] / "site"
HEAVY = ("torch", "numpy", "pydantic", "rich", "httpx", "aiohttp", "pluggy", "PIL", "asyncio")
CODE = """
import sys
from agentfw_cli.main import main
for command in {commands!r}:
    try:
        main([*command, "--help"])
    except SystemExit:
        pass
    print(" ".join(["agentfw", *command]), "|", *sorted(sys.modules), file=sys.stderr)
"""


def imported(*commands: list[str]) -> dict[str, set[str]]:
    """The modules that one process has imported after the help of each command, one after the other."""
    environment = {**os.environ, "PYTHONPATH": str(SITE), "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(commands=commands)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        timeout=60,
    )
    lines = [line.partition(" | ") for line in done.stderr.splitlines()]
    assert all(f"Usage: {command}" in done.stdout for command, _, _ in lines)
    return {command: set(modules.split()) for command, _, modules in lines}


def test_help_imports_nothing_heavy_and_no_plugin() -> None:
    (modules,) = imported([]).values()

    assert not modules & set(HEAVY)
    assert not [name for name in modules if name.startswith(("agentfw_plugins", "agentfw_laboratory"))]


def test_the_help_of_a_command_imports_nothing_heavy() -> None:
    found = imported(*([command] for command in filter(_place, _OWN)))

    assert len(found) > 6
    # asyncio is Python's own, and `run` is nothing without it.
    heavy = {command: modules & (set(HEAVY) - {"asyncio"}) for command, modules in found.items()}
    assert not any(heavy.values()), heavy
