"""`agentfw --help` imports nothing that it does not need, and costs next to nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from agentfw_cli.main import _OWN, _place, main

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


def _cpu_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, env=environment(), check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.mark.slow
def test_help_costs_little_time() -> None:
    """Not a measurement (benchmarks/startup.py is): it fails when something heavy has come in."""
    shown, bare = ["-m", "agentfw_cli.main", "--help"], ["-c", "import click, email.parser"]

    # In turns, so that a busy or a slow machine slows both.
    ratios = [_cpu_seconds(shown) / _cpu_seconds(bare) for _ in range(5)]

    assert min(ratios) < 4


@pytest.mark.parametrize(("given", "then"), [(None, "1"), ("3", "3")])
def test_small_matrices_take_one_thread_unless_somebody_says_otherwise(
    given: str | None, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "")  # so that it is put back afterwards
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    if given is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)

    with pytest.raises(SystemExit):
        main(["--version"])

    assert os.environ["OPENBLAS_NUM_THREADS"] == then
