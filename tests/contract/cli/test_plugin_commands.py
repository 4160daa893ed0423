"""Commands of plugins stand beside ours, are loaded when they are called, and take no other's place.

So do the commands that make and check the data of worlds. Tab completes them all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw, Install

TEA = """
import click
@click.command()
@click.option("--cups", type=int, default=1)
def tea(cups):
    print(cups, "cups")
"""
BOMB = "raise RuntimeError('boom')"


@pytest.mark.parametrize(
    ("entry", "group"), [("[agentfw.commands]\n", ()), ("[agentfw.data]\nmake.", ("data", "make"))]
)
def test_a_command_of_a_plugin_is_listed_and_called_and_a_broken_one_breaks_no_other(
    agentfw: Agentfw, install: Install, entry: str, group: tuple[str, ...]
) -> None:
    install("agentfw-tea", f"{entry}tea = agentfw_tea:tea\n", TEA)
    install("agentfw-bomb", f"{entry}bomb = agentfw_bomb:bomb\n", BOMB)
    install("agentfw-odd", f"{entry}odd = agentfw_odd:odd\n", "odd = 3")

    assert "tea from agentfw-tea" in " ".join(agentfw(*group, "--help").out.split())
    assert agentfw(*group, "tea", "--cups", "3").out == "3 cups\n"
    assert agentfw(*group, "tea", "--cups", "many").code == 2
    assert 'did you mean "tea"?' in agentfw(*group, "teaa").told(2)
    broken = agentfw(*group, "bomb").told(3)
    assert "agentfw-bomb 1.0.0 can't be imported: RuntimeError: boom" in broken
    assert "pip install --upgrade agentfw-bomb" in broken
    assert "is no click command but int" in agentfw(*group, "odd").told(3)
    assert "tea" not in agentfw("data", "check", "--help").out


def test_a_bare_command_helps(agentfw: Agentfw) -> None:
    for words in ([], ["runs"], ["plugins"]):
        answer = agentfw(*words)

        assert answer.ok.out.startswith(" ".join(["Usage: agentfw", *words]))
        assert answer.err == ""


def test_a_plugin_that_is_left_out_has_no_command(agentfw: Agentfw, install: Install, monkeypatch: Any) -> None:
    install("agentfw-bomb", "[agentfw.commands]\nbomb = agentfw_bomb:bomb\n", BOMB)

    for names in ("agentfw-bomb", "bomb", "all"):
        with monkeypatch.context() as changed:
            changed.setenv("AGENTFW_DISABLE_PLUGINS", names)
            assert "is disabled by AGENTFW_DISABLE_PLUGINS" in agentfw("bomb").told(3)
    Path("agentfw.toml").write_text("[plugins]\nallow = []\n")
    assert "isn't allowed by" in agentfw("bomb").told(3)


def test_a_plugin_is_made_installed_and_checked(agentfw: Agentfw, monkeypatch: Any, tmp_path: Path) -> None:
    made = agentfw("plugins", "new", "agentfw-cups", "--kind", "reward")
    assert "agentfw plugins check cups" in made.told(0)
    for line in made.out.splitlines():
        assert Path(line).is_file()
    # What `pip install -e` would do.
    folder = tmp_path / "agentfw-cups"
    dist_info = folder / "agentfw_cups-0.1.0.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text("Name: agentfw-cups\nVersion: 0.1.0\n")
    (dist_info / "entry_points.txt").write_text("[agentfw]\ncups = agentfw_cups.plugin\n")
    monkeypatch.syspath_prepend(str(folder))

    assert "promises kept" in agentfw("plugins", "check", "cups").ok.out


@pytest.mark.parametrize(
    ("line", "offered"), [("agentfw ru", ["run", "runs", "ruin"]), ("agentfw train --opt", ["--optimizer"])]
)
def test_tab_works_beside_a_broken_command(install: Install, tmp_path: Path, line: str, offered: list[str]) -> None:
    install("agentfw-broken", "[agentfw.commands]\nruin = no_such_module:ruin\n", "")
    asked = {"_AGENTFW_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), **asked}

    done = subprocess.run([sys.executable, "-m", "agentfw"], capture_output=True, text=True, env=environment)

    assert done.returncode == 0, done.stderr
    assert [each.partition(",")[2] for each in done.stdout.splitlines()] == offered


def test_a_broken_distribution_of_somebody_else_stops_nothing(
    agentfw: Agentfw, install: Install, quick: tuple[str, ...], tmp_path: Path
) -> None:
    install("foreign", "", "")
    (entry_points,) = tmp_path.glob("site/foreign-*/entry_points.txt")
    entry_points.write_bytes(b"[console_scripts]\ncaf\xe9 = foreign:main\n")

    listed = agentfw("plugins", "list").ok

    assert "guessing" in listed.out
    assert "foreign" not in listed.out + listed.err
    assert agentfw(*quick).ok
