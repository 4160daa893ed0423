"""`agentfw engagement`: train a table, compare it, and run with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from agentfw_plugins.engagement.command import engagement
from agentfw_plugins.learners.table_training import play
from agentfw_plugins.policies.qtable import QTablePolicy, QTableSettings
from agentfw_plugins.worlds.deliberation.environment import Deliberation

SMALL = ("--training", "300", "--episodes", "40", "--jobs", "1")


def call(*words: str) -> Result:
    result = CliRunner().invoke(engagement, list(words), catch_exceptions=False)
    assert result.exit_code == 0
    return result


def rows(*words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(call(*words, "--json").output)["rows"]
    return found


def test_what_was_trained_can_be_played(tmp_path: Path) -> None:
    result = call("deliberation", *SMALL, "--out", str(tmp_path / "there"))
    assert result.output.splitlines()[0].split() == ["trained", "played", "return", "success", "timeout", "deepest"]
    names = {path.name for path in (tmp_path / "there").iterdir()}
    assert names == {
        "deliberation-single-event.json",
        "deliberation-single-step.json",
        "deliberation-single.png",
        "deliberation-single.svg",
    }
    policy = QTablePolicy(QTableSettings(table=str(tmp_path / "there" / "deliberation-single-event.json")))
    episodes = play(Deliberation, policy, Deliberation().tasks(20, 1, "test"))
    assert all(len(turn.calls) == 1 for episode in episodes for turn in episode.turns[:1])


def test_one_seed_gives_one_table_of_figures() -> None:
    words = ("deliberation", "--setting", "chain", *SMALL)
    first, again, other = rows(*words), rows(*words), rows(*words, "--seed", "7")
    assert first == again
    assert first != other
    assert [(row["trained"], row["played"]) for row in first] == [
        ("event", "event"),
        ("event", "step"),
        ("step", "event"),
        ("step", "step"),
    ]


def test_a_patrol_in_one_piece_has_no_patches() -> None:
    assert [row["controller"] for row in rows("patrol", "--training", "30", "--episodes", "4", "--jobs", "1")] == [
        "learned",
        "loop",
        "greedy",
        "greedy loop",
    ]
