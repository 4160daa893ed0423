"""run.json names what took part in a run, and no more; `compare` and `resume` say what differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw

from agentfw import __version__
from agentfw.host.origin import digest_of_files, origin_of

DICE = """
from agentfw import Component, Policy, Generation, hookimpl

class Dice(Policy):
    async def generate(self, request):
        return Generation("six")

@hookimpl
def agentfw_policies():
    return [Component("dice", f"{__name__}:Dice", "")]
"""
WATCHING = """
from agentfw import hookimpl

@hookimpl
def agentfw_scored(scores):
    pass
"""


def abouts() -> list[dict[str, Any]]:
    found = [json.loads(file.read_text("utf-8")) for file in Path("runs").glob("*/run.json")]
    return sorted(found, key=lambda about: str(about["created"]))


@pytest.mark.slow
def test_what_took_part_is_recorded_and_what_differs_is_told(
    agentfw: Agentfw, install: Callable[..., None], tmp_path: Path
) -> None:
    install("agentfw-dice", "[agentfw]\ndice = agentfw_dice\n", DICE)
    install("agentfw-idle", "[agentfw]\nidle = agentfw_idle\n", DICE.replace('"dice"', '"idle"'))
    install("agentfw-watching", "[agentfw]\nwatching = agentfw_watching\n", WATCHING)
    origin_of.cache_clear()
    digest_of_files.cache_clear()
    assert agentfw("run", "guessing", "--policy", "dice", "--episodes", "2").code == 0
    code = tmp_path / "site" / "agentfw_dice.py"
    code.write_text(DICE.replace("six", "one"), "utf-8")
    origin_of.cache_clear()
    digest_of_files.cache_clear()
    assert agentfw("run", "guessing", "--policy", "dice", "--episodes", "2").code == 0

    first, second = abouts()
    assert set(first["plugins"].values()) == {
        f"agentfw=={__version__}",
        "agentfw-dice==1.0.0",
        "agentfw-laboratory==1.0.0",
        "agentfw-watching==1.0.0",
    }
    assert set(first["distributions"]) == {"agentfw", "agentfw-dice", "agentfw-laboratory", "agentfw-watching"}
    assert first["distributions"]["agentfw"]["requires"]["pydantic"]
    assert first["distributions"]["agentfw-dice"]["files"] != second["distributions"]["agentfw-dice"]["files"]
    runs = sorted(Path("runs").iterdir(), key=lambda path: path.stat().st_mtime)
    compared = agentfw("compare", *(path.name for path in runs))
    assert "agentfw-dice has other files in" in compared.err
    assert "agentfw-watching has other files" not in compared.err
    origin_of.cache_clear()
    digest_of_files.cache_clear()
