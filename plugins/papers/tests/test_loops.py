"""Loops: every cell does what its variant says, an interrupted loop goes on, and variants are compared user by user."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentfw import Host
from agentfw.errors import SettingsError, UsageError
from agentfw.runs import drop_records
from agentfw_cli.main import cli
from agentfw_papers.loops import Loop, LoopSpec, Result, forget, table
from agentfw_papers.loops.table import holm

SPEC: dict[str, Any] = {
    "rounds": 2,
    "quick": ["A1"],
    "figures": ["judge", "procedure"],
    "carry": ["policy.weights={adapter}", "learner.weights={adapter}"],
    "carry_train": ["optimizer.anchors={training}/state.json"],
    "groups": ["circle", "conformity"],
    "contrasts": {"trained": {"about": "training", "plus": ["Full"], "minus": ["P0"]}},
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
        "twice": {"about": "another exam", "like": "P0", "exam": ["environment.faults=1"]},
    },
}


def spec(**more: Any) -> LoopSpec:
    return LoopSpec.model_validate({**SPEC, **more})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A loop of two variants that was not disturbed."""
    folder = tmp_path_factory.mktemp("loops") / "whole"
    return folder, Loop.at(folder, spec(rounds=1).chosen(["P0"]), 1).do(Host.load())


@pytest.mark.nightly
def test_a_loop_that_is_interrupted_anywhere_goes_on_and_has_the_same_table(tmp_path: Path) -> None:
    chosen = spec().chosen(["P0"])
    whole = Loop.at(tmp_path / "whole", chosen, 1).do(Host.load())
    phases = []

    def stop(text: str, done: int, of: int) -> None:
        if text not in phases:
            phases.append(text)
            raise KeyboardInterrupt

    for _ in range(20):
        with suppress(KeyboardInterrupt):
            again = Loop.at(tmp_path / "again", chosen, 1).do(Host.load(), stop)
            break

    assert phases == [
        *("Full-1 round 1 live", "Full-1 round 1 train", "Full-1 round 2 live", "Full-1 round 2 train", "Full-1 exam"),
        *("P0-1 round 1 live", "P0-1 round 2 live", "P0-1 exam"),
    ]
    assert again.to_record() == whole.to_record()
    kept = json.loads((tmp_path / "again" / "table.json").read_text())
    assert [row["variant"] for row in kept["rows"]] == ["Full", "P0"]
    assert "Beside Full" in (tmp_path / "again" / "report.html").read_text()
    assert not (tmp_path / "again" / "cells" / "P0-1" / "1-train").exists()


def test_a_variant_can_be_another_exam_of_what_a_variant_learned(tmp_path: Path, whole: tuple[Path, Result]) -> None:
    shutil.copytree(whole[0], tmp_path / "loop")
    before = sorted(path.name for path in (tmp_path / "loop/cells/P0-1").iterdir())

    Loop.at(tmp_path / "loop", spec(rounds=1).chosen(["twice"]), 1).do(Host.load())

    assert sorted(path.name for path in (tmp_path / "loop/cells/P0-1").iterdir()) == before
    assert sorted(path.name for path in (tmp_path / "loop/cells/twice-1").iterdir()) == ["exam", "exam-store"]
    (played,) = (tmp_path / "loop/cells/twice-1/exam").glob("*/metrics.jsonl")
    assert all("recovered" in json.loads(line)["outcome"] for line in played.open())


def test_a_user_is_forgotten_everywhere(tmp_path: Path, whole: tuple[Path, Result]) -> None:
    folder = tmp_path / "loop"
    shutil.copytree(whole[0], folder)
    # The copy has settings of its own: each run knows where its memories are.
    for file in [*folder.glob("cells/*/*/*/run.json"), folder / "loop.json"]:
        file.write_text(file.read_text().replace(str(whole[0]), str(folder)))
    known = {json.loads(line)["user"] for path in folder.rglob("metrics.jsonl") for line in path.open()}
    anchors = json.loads(next((folder / "cells/Full-1/1-train").glob("*/state.json")).read_text())["optimizer"]
    user = next(iter(anchors["anchors"]))
    assert user in known
    (played,) = (folder / "cells/Full-1/1-live").glob("*/episodes.jsonl")
    before = len(played.read_text().splitlines())
    with (played.parent / "annotations.jsonl").open("a") as notes:
        notes.write(json.dumps({"episode": 1, "about": [{"users": ["somebody", user]}]}) + "\n")

    # A call before was killed when it had taken the first lines out.
    assert drop_records(played.parent / "metrics.jsonl", lambda line: bool(line["user"] == user)) > 0

    result = CliRunner().invoke(cli, ["forget", user, "--loop", str(folder), "--yes", "--json"], standalone_mode=False)

    receipt = json.loads(result.stdout)
    assert receipt["records"] > 0
    assert receipt["optimizers"] >= 1
    left = [path for path in folder.rglob("*") if path.is_file() and _names(path.read_bytes(), user)]
    assert left == []
    about = json.loads((played.parent / "run.json").read_text())
    assert about["episodes"] == len(played.read_text().splitlines()), "what is left is complete"
    assert 0 < len(played.read_text().splitlines()) <= before
    again = forget(folder, user, Host.load())
    assert again.empty
    assert [row["variant"] for row in json.loads((folder / "table.json").read_text())["rows"]] == ["Full", "P0"]


def _names(data: bytes, user: str) -> bool:
    """Whether a file has the name, and not only as the beginning of another one's: "train 1" is in "train 12"."""
    return re.search(re.escape(user).encode() + rb"(?!\d)", data) is not None


def test_nothing_is_forgotten_of_data_elsewhere_or_in_a_broken_loop(tmp_path: Path, whole: tuple[Path, Result]) -> None:
    shutil.copytree(whole[0], tmp_path / "loop")  # its runs still name the stores of the original

    with pytest.raises(UsageError, match="memory skillgraph has its data in"):
        forget(tmp_path / "loop", "train 1", Host.load())
    next((tmp_path / "loop/cells/P0-1/exam").glob("*/summary.json")).unlink()
    with pytest.raises(UsageError, match="no user is named"):
        forget(tmp_path / "loop", "", Host.load())
    with pytest.raises(UsageError, match="is not complete"):
        forget(tmp_path / "loop", "train 1", Host.load())


COMMAND = """
import json, sys
from pathlib import Path
from agentfw import Host
from agentfw_papers.loops import Loop, LoopSpec
spec = LoopSpec.model_validate(json.loads(sys.argv[2]))
Loop.at(Path(sys.argv[1]), spec, 1).do(Host.load())
"""


@pytest.mark.nightly
def test_a_killed_loop_that_goes_on_side_by_side_has_the_same_table(tmp_path: Path, whole: tuple[Path, Result]) -> None:
    chosen, killed = spec(rounds=1).chosen(["P0"]), tmp_path / "killed"
    told: list[tuple[int, int]] = []

    # In the middle of a training, and while the store is copied for the exam. The second variant is still to come.
    for moment in ("1-train/*/rollouts/*/*", "exam-store"):
        process = subprocess.Popen([sys.executable, "-c", COMMAND, str(killed), chosen.model_dump_json()])
        while not list((killed / "cells" / "Full-1").glob(moment)):
            assert process.poll() is None
            time.sleep(0.002)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    again = Loop.at(killed, chosen, 1).do(Host.load(), lambda text, done, of: told.append((done, of)), jobs=2)

    assert again.to_record() == whole[1].to_record()
    assert told == [(0, 2), (1, 2), (2, 2)]
    assert json.loads((killed / "table.json").read_text()) == json.loads((whole[0] / "table.json").read_text())


def test_the_exam_works_on_a_copy_of_what_was_learned(whole: tuple[Path, Result]) -> None:
    def users(store: str) -> set[str]:
        with sqlite3.connect(whole[0] / "cells" / "P0-1" / store / "skills.db") as connection:
            found = connection.execute("SELECT name FROM node WHERE kind = 'user' AND name LIKE '% %'")
            return {name for (name,) in found}

    before = users("store")
    assert before
    assert all(user.startswith("train") for user in before)
    assert before < users("exam-store")


def test_a_wrong_variant_or_contrast_is_an_error_before_anything_is_played() -> None:
    wrong = {"about": "a typo", "set": ["memory.skillgraph.ablatoin=A1"]}

    with pytest.raises(SettingsError, match=r"variant X, live.*ablatoin"):
        spec(variants={**SPEC["variants"], "X": wrong}).check(Host.load())
    with pytest.raises(SettingsError, match='no variant "A2"') as refused:
        spec().chosen(["A2"])
    assert "A1" in refused.value.fix
    spec().check(Host.load())
    with pytest.raises(ValueError, match=r'names "Ful".*did you mean "Full"'):
        spec(contrasts={"wrong": {"about": "a typo", "plus": ["Ful"], "minus": ["A1"]}})
    assert spec().chosen(["A1"]).contrasts == {}
    world = CliRunner().invoke(cli, ["loop", "inbox"], standalone_mode=False).exception
    assert isinstance(world, UsageError)
    assert "assistant" in world.fix, "the worlds that have a loop"


def test_a_variant_replaces_a_component_and_then_sets_what_a_phase_needs_of_it() -> None:
    other = {"about": "GRPO", "set": ["optimizer=grpo"], "train": ["optimizer.kl=0"]}
    places = {"store": "store", "shared": "shared", "seed": "1", "before": "0"}

    trained = spec(variants={**SPEC["variants"], "C1": other}).phase("C1", "train", places, seed=1)

    assert trained.optimizer is not None
    assert (trained.optimizer.name, trained.optimizer.settings) == ("grpo", {"kl": 0})


def test_a_folder_belongs_to_one_loop_and_takes_more_variants(tmp_path: Path) -> None:
    Loop.at(tmp_path, spec().chosen(["P0"]), 1)

    Loop.at(tmp_path, spec().chosen(["A1"]), 2)
    kept = json.loads((tmp_path / "loop.json").read_text())
    assert (set(kept["variants"]), set(kept["contrasts"])) == ({"Full", "A1", "P0"}, {"trained"})
    with pytest.raises(UsageError, match="another loop"):
        Loop.at(tmp_path, spec(rounds=5), 1)
    with pytest.raises(UsageError, match="another variant A1"):
        Loop.at(tmp_path, spec(variants={**SPEC["variants"], "A1": {"about": "something else"}}), 1)


def records(values: dict[str, list[float]]) -> list[tuple[int, dict[str, Any]]]:
    return [(1, {"user": user, "outcome": {"judge": value}}) for user, some in values.items() for value in some]


def test_variants_are_compared_user_by_user() -> None:
    users = {f"user {number}": [0.1 * number, 0.1 * number + 0.2] for number in range(8)}
    worse = {user: [value - 0.05 for value in some] for user, some in users.items()}

    played = {"Full": records(users), "same": records(users), "less": records(worse)}
    full, same, less = table(played, dict.fromkeys(played, ""), ["judge"])

    assert full.differences == {}
    assert same.differences["judge"].difference.estimate == 0
    assert less.differences["judge"].difference.estimate == pytest.approx(-0.05)
    assert less.differences["judge"].difference.count == 8
    assert less.corrected == pytest.approx(2 * less.differences["judge"].p_value)
    assert holm([0.5, 0.9]) == [1.0, 1.0]
