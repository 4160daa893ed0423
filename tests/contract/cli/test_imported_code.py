"""Whatever code of others is imported for, a fault in it is told with its name, and doesn't move the runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Agentfw

Install = Callable[..., None]

ENDS_PYTHON = "import sys\nsys.exit('enough')\n"


def test_a_plugin_that_changes_the_directory_does_not_move_the_runs(
    agentfw: Agentfw, install: Install, quick: tuple[str, ...], tmp_path: Path
) -> None:
    here, elsewhere = Path.cwd(), tmp_path / "elsewhere"
    elsewhere.mkdir()
    install("agentfw-mover", "[agentfw]\nmover = agentfw_mover\n", f"import os\nos.chdir({str(elsewhere)!r})\n")

    answer = agentfw(*quick, "--json")

    assert answer.code == 0, answer.err
    assert Path(answer.json["folder"]).parent == here / "runs"
    assert list(elsewhere.iterdir()) == []


def test_a_file_that_is_checked_may_end_python(agentfw: Agentfw) -> None:
    Path("tool.py").write_text(ENDS_PYTHON)

    answer = agentfw("plugins", "check", "tool.py")

    assert answer.code == 3
    assert "tool.py tried to end Python when it was imported" in " ".join(answer.err.split())


def test_recordings_that_can_not_be_imported_are_told_with_their_distribution(
    agentfw: Agentfw, install: Install
) -> None:
    install("agentfw-tapes", "[agentfw.recordings]\ntapes = agentfw_tapes:copied\n", ENDS_PYTHON)

    answer = agentfw("train", "--from", "tapes://archive")

    assert answer.code == 3
    assert 'the recordings "tapes" of agentfw-tapes 1.0.0 tried to end Python' in " ".join(answer.err.split())


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--policy", "scripted", "--set", "policy.rule=agentfw_rules:rule"),
        (
            "run",
            "program",
            "--set",
            "environment.tasks=tasks.jsonl",
            "--set",
            "environment.function=agentfw_rules:rule",
        ),
    ],
    ids=["policy.rule", "environment.function"],
)
def test_a_function_that_a_setting_names_may_end_python(
    agentfw: Agentfw, install: Install, words: tuple[str, ...]
) -> None:
    install("agentfw-rules", "", ENDS_PYTHON)
    Path("tasks.jsonl").write_text('{"query": "tea?"}\n')

    answer = agentfw(*words)

    assert answer.code == 2
    assert "agentfw_rules:rule tried to end Python when it was imported" in " ".join(answer.err.split())
