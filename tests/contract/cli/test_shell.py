"""How the command is reached and completed: `python -m agentfw`, and Tab in a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "site"


def agentfw(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SITE), **variables}
    command = [sys.executable, "-m", "agentfw", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)


def completed(line: str, site: Path) -> list[str]:
    """What bash is offered for the last word of a line, with what is installed in this folder."""
    cursor, path = str(line.count(" ")), os.pathsep.join([str(site), str(SITE)])
    answer = agentfw(PYTHONPATH=path, _AGENTFW_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=cursor)
    assert answer.returncode == 0, answer.stderr
    return [each.partition(",")[2] for each in answer.stdout.splitlines()]


def test_the_module_is_the_command() -> None:
    version, wrong = agentfw("--version"), agentfw("rum")

    assert version.stdout.startswith("agentfw ")
    assert version.returncode == 0
    assert 'did you mean "run"?' in wrong.stderr
    assert wrong.returncode == 2


@pytest.mark.parametrize(("shell", "mark"), [("bash", "complete -"), ("fish", "complete ")])
def test_a_shell_is_given_its_completion(shell: str, mark: str) -> None:
    source = agentfw(_AGENTFW_COMPLETE=f"{shell}_source")

    assert source.returncode == 0
    assert mark in source.stdout


@pytest.mark.slow
def test_commands_and_options_are_completed_though_the_command_of_a_plugin_is_broken(tmp_path: Path) -> None:
    dist_info = tmp_path / "agentfw_broken-1.0.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text("Name: agentfw-broken\nVersion: 1.0\n")
    (dist_info / "entry_points.txt").write_text("[agentfw.commands]\nruin = no_such_module:ruin\n")

    assert completed("agentfw ru", tmp_path) == ["run", "runs", "ruin"]
    assert completed("agentfw mem", tmp_path) == ["memory"]
    assert completed("agentfw train --opt", tmp_path) == ["--optimizer"]


@pytest.mark.slow
def test_a_broken_distribution_of_somebody_else_stops_nothing(tmp_path: Path) -> None:
    dist_info = tmp_path / "foreign-1.0.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text("Name: foreign\nVersion: 1.0\n")
    (dist_info / "entry_points.txt").write_bytes(b"[console_scripts]\ncaf\xe9 = foreign:main\n")

    path, runs = os.pathsep.join([str(tmp_path), str(SITE)]), str(tmp_path / "runs")
    listed = agentfw("plugins", "list", PYTHONPATH=path)
    played = agentfw(
        *("run", "guessing", "--policy", "hashing", "--episodes", "1", "--runs", runs, "--json"), PYTHONPATH=path
    )

    assert "guessing" in listed.stdout
    assert "foreign" not in listed.stdout + listed.stderr
    assert played.returncode == 0, played.stderr
