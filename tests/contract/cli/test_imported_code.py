"""Whatever code of others is imported for, a fault in it is told with its name, and doesn't move the runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Agentfw

Install = Callable[..., None]

ENDS_PYTHON = "import sys\nsys.exit('enough')\n"
PROGRAM = "run program --set environment.tasks=tasks.jsonl --set environment.function=agentfw_tapes:rule"


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


@pytest.mark.parametrize(
    ("words", "code", "culprit"),
    [
        ("plugins check tool.py", 3, "tool.py"),
        ("train --from tapes://archive", 3, 'the recordings "tapes" of agentfw-tapes 1.0.0'),
        ("run --policy scripted --set policy.rule=agentfw_tapes:rule", 2, "agentfw_tapes:rule"),
        (PROGRAM, 2, "agentfw_tapes:rule"),
    ],
    ids=["file", "recordings", "policy.rule", "environment.function"],
)
def test_what_is_imported_may_end_python(
    agentfw: Agentfw, install: Install, words: str, code: int, culprit: str
) -> None:
    install("agentfw-tapes", "[agentfw.recordings]\ntapes = agentfw_tapes:copied\n", ENDS_PYTHON)
    Path("tool.py").write_text(ENDS_PYTHON)
    Path("tasks.jsonl").write_text('{"query": "tea?"}\n')

    answer = agentfw(*words.split())

    assert answer.code == code
    assert f"{culprit} tried to end Python when it was imported" in " ".join(answer.err.split())
