"""Loops: every cell does what its variant says, an interrupted loop goes on, and variants are compared user by user."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentfw import Host, HostOptions
from agentfw.errors import SettingsError, UsageError
from agentfw.loops import Loop, LoopSpec, table
from agentfw.loops.table import holm
from agentfw_cli.main import cli

SPEC: dict[str, Any] = {
    "rounds": 2,
    "figures": ["judge", "procedure"],
    "carry": ["policy.weights={adapter}", "learner.weights={adapter}"],
    "run": {
        "environment": "assistant",
        "policy": "assistant-linear",
        "memories": [{"name": "skillgraph", "settings": {"path": "{store}/skills.db", "embedder": "hash"}}],
        "rewards": ["assistant_base", "assistant_personal"],
    },
    "live": {"episodes": 6, "concurrency": 3, "split": "train"},
    "train": {
        "optimizer": "parpo",
        "learner": "assistant-linear",
        "updates": 1,
        "tasks": 2,
        "samples": 2,
        "evaluation": {"every": 1, "tasks": 2},
    },
    "exam": {"episodes": 8, "concurrency": 4, "split": "test"},
    "variants": {
        "Full": {"about": "everything"},
        "A1": {"about": "no memory", "set": ["memory.skillgraph.ablation=A1"]},
        "P0": {"about": "untrained", "trains": False},
    },
}


def spec(**more: Any) -> LoopSpec:
    return LoopSpec.model_validate({**SPEC, **more})


def host() -> Host:
    return Host.load(HostOptions(disabled=("all",)))


class Interrupted(Exception):
    pass


@pytest.mark.slow
def test_a_loop_that_is_interrupted_anywhere_goes_on_and_has_the_same_table(tmp_path: Path) -> None:
    chosen = spec().chosen(["P0"])
    whole = Loop.at(tmp_path / "whole", chosen, 1).do(host())
    phases = []

    def stop(text: str, done: int, of: int) -> None:
        if text not in phases:
            phases.append(text)
            raise Interrupted

    for _ in range(20):
        try:
            again = Loop.at(tmp_path / "again", chosen, 1).do(host(), stop)
            break
        except Interrupted:
            continue

    assert phases == [
        *("Full-1 round 1 live", "Full-1 round 1 train", "Full-1 round 2 live", "Full-1 round 2 train", "Full-1 exam"),
        *("P0-1 round 1 live", "P0-1 round 2 live", "P0-1 exam"),
    ]
    assert [row.to_record() for row in again] == [row.to_record() for row in whole]
    kept = json.loads((tmp_path / "again" / "table.json").read_text())
    assert [row["variant"] for row in kept] == ["Full", "P0"]
    assert not (tmp_path / "again" / "cells" / "P0-1" / "1-train").exists()


COMMAND = """
import json, sys
from pathlib import Path
from agentfw import Host, HostOptions
from agentfw.loops import Loop, LoopSpec
spec = LoopSpec.model_validate(json.loads(sys.argv[2]))
Loop.at(Path(sys.argv[1]), spec, 1).do(Host.load(HostOptions(disabled=("all",))))
"""


@pytest.mark.slow
def test_a_loop_that_is_killed_has_the_same_table(tmp_path: Path) -> None:
    chosen = spec(rounds=1).chosen(["P0"])
    whole = Loop.at(tmp_path / "whole", chosen, 1).do(host())
    killed = tmp_path / "killed"

    # In the middle of a training, and while the store is copied for the exam. The second variant is still to come.
    for moment in ("1-train/*/rollouts/*/*", "exam-store"):
        process = subprocess.Popen([sys.executable, "-c", COMMAND, str(killed), chosen.model_dump_json()])
        while not list((killed / "cells" / "Full-1").glob(moment)):
            assert process.poll() is None
            time.sleep(0.002)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    again = Loop.at(killed, chosen, 1).do(host())

    assert [row.to_record() for row in again] == [row.to_record() for row in whole]
    assert json.loads((killed / "table.json").read_text()) == json.loads((tmp_path / "whole/table.json").read_text())


@pytest.mark.slow
def test_the_exam_works_on_a_copy_of_what_was_learned(tmp_path: Path) -> None:
    loop = Loop.at(tmp_path, spec(rounds=1).chosen(["P0"]), 1)
    cell = loop.cells[-1]

    cell.do(host())

    before, after = (_users(cell.home / store) for store in ("store", "exam-store"))
    assert before
    assert all(user.startswith("train") for user in before)
    assert before < after
    assert cell.exam() is not None


def _users(store: Path) -> set[str]:
    import sqlite3

    with sqlite3.connect(store / "skills.db") as connection:
        return {name for (name,) in connection.execute("SELECT name FROM node WHERE kind = 'user' AND name LIKE '% %'")}


def test_a_wrong_variant_is_an_error_before_anything_is_played(tmp_path: Path) -> None:
    wrong = {"about": "a typo", "set": ["memory.skillgraph.ablatoin=A1"]}

    with pytest.raises(SettingsError, match=r"variant X, live.*ablatoin"):
        spec(variants={**SPEC["variants"], "X": wrong}).check(host())
    with pytest.raises(SettingsError, match='no variant "A2"') as refused:
        spec().chosen(["A2"])
    assert "A1" in refused.value.fix
    spec().check(host())


def test_a_folder_belongs_to_one_loop_and_takes_more_variants(tmp_path: Path) -> None:
    Loop.at(tmp_path, spec().chosen(["A1"]), 1)

    Loop.at(tmp_path, spec().chosen(["P0"]), 2)
    assert set(json.loads((tmp_path / "loop.json").read_text())["variants"]) == {"Full", "A1", "P0"}
    with pytest.raises(UsageError, match="another loop"):
        Loop.at(tmp_path, spec(rounds=5), 1)
    with pytest.raises(UsageError, match="another variant A1"):
        Loop.at(tmp_path, spec(variants={**SPEC["variants"], "A1": {"about": "something else"}}), 1)


def test_variants_are_compared_user_by_user() -> None:
    def records(values: dict[str, list[float]]) -> list[dict[str, Any]]:
        return [{"user": user, "outcome": {"judge": value}} for user, some in values.items() for value in some]

    users = {f"user {number}": [0.1 * number, 0.1 * number + 0.2] for number in range(8)}
    worse = {user: [value - 0.05 for value in some] for user, some in users.items()}

    full, same, less = table(
        {"Full": records(users), "same": records(users), "less": records(worse)},
        {"Full": "", "same": "", "less": ""},
        ["judge"],
    )

    assert full.differences == {}
    assert same.differences["judge"].difference.estimate == 0
    assert less.differences["judge"].difference.estimate == pytest.approx(-0.05)
    assert less.differences["judge"].difference.count == 8
    assert less.corrected == pytest.approx(2 * less.differences["judge"].p_value)
    assert holm([0.5, 0.9]) == [1.0, 1.0]


def test_a_world_without_a_loop_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["loop", "inbox"], standalone_mode=False)

    assert isinstance(result.exception, UsageError)
    assert "assistant" in result.exception.fix
