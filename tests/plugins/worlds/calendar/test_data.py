"""The data set on disk, and the commands that make and check it."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentfw.errors import SettingsError
from agentfw_cli.data import data
from agentfw_plugins.worlds.calendar.data_command import organisations_for
from agentfw_plugins.worlds.calendar.dataset import Dataset
from agentfw_plugins.worlds.calendar.event_attributes import parse_line


def make(folder: Path, *more: str) -> Result:
    line = ["make", "calendar", "--out", str(folder), "--users", "3", *more]
    return CliRunner().invoke(data, line, catch_exceptions=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("data")
    return folder, json.loads(make(folder, "--json").stdout)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.slow
def test_the_manifest_says_what_is_there(made: tuple[Path, dict[str, Any]]) -> None:
    folder, manifest = made
    assert json.loads((folder / "MANIFEST.json").read_text("utf-8")) == manifest
    assert manifest["users"] == {"train": 1, "validation": 1, "test": 1}
    assert set(manifest["rejected"]) == {"role_realism", "organisation", "coherence", "alignment", "metadata"}
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert there == {*manifest["files"], "MANIFEST.json"}
    for name, entry in manifest["files"].items():
        written = (folder / name).read_bytes()
        assert sha256(written).hexdigest() == entry["sha256"]
        assert len(written.splitlines()) == entry["rows"]
    assert manifest["rounds"] == 3 * 104


@pytest.mark.slow
def test_rows_are_those_of_the_data_set(made: tuple[Path, dict[str, Any]]) -> None:
    (user,) = rows(made[0] / "test" / "users.jsonl")
    each, counts = organisations_for(3)
    dataset = Dataset(7, users_each=each, organisations=counts)
    calendar = dataset.calendar(dataset.user(user["user"]))
    assert user["weights"] == dict(calendar.user.weights)
    rounds = rows(made[0] / "test" / "rounds.jsonl")
    assert [row["answer"] for row in rounds] == [shown.answer for shown in calendar.rounds]
    for row, shown in zip(rounds, calendar.rounds, strict=True):
        assert [parse_line(line)[2] for line in row["lines"]] == list(shown.tags)
        assert len(row["events"]) == 5
    assert len(rows(made[0] / "test" / "events.jsonl")) == len(calendar.events)


@pytest.mark.slow
def test_one_seed_gives_the_same_bytes_and_is_told_in_a_table(tmp_path: Path, made: tuple[Path, Any]) -> None:
    said = make(tmp_path / "again").stdout
    assert json.loads((tmp_path / "again/MANIFEST.json").read_text("utf-8")) == made[1]
    assert "rejected by verification" in said
    assert json.loads(make(tmp_path / "other", "--seed", "6", "--json").stdout)["files"] != made[1]["files"]


@pytest.mark.parametrize("users", [3, 4, 5, 19, 20, 33, 40, 200])
def test_every_split_has_an_organisation(users: int) -> None:
    each, counts = organisations_for(users)
    assert min(counts.values()) >= 1
    assert sum(counts.values()) * each >= users
    if users == 40:  # the held-out users are those of the benchmark
        assert Dataset(7, users_each=each, organisations=counts).users("test") == Dataset(7).users("test")


def test_what_can_not_be_made_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        make(tmp_path / "none", "--organisations", str(tmp_path / "no folder"))
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_check_reads_a_file_or_a_folder(bakery: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    said = runner.invoke(data, ["check", "calendar", str(bakery)], catch_exceptions=False)
    assert "bakery.yaml: bakery, 2 roles; 208 rounds made and verified" in said.stdout
    (tmp_path / "b.yaml").write_text(bakery.read_text("utf-8").replace("[mornings]", "[dawn]"), "utf-8")
    with pytest.raises(SettingsError, match=r"b\.yaml, line \d+"):
        runner.invoke(data, ["check", "calendar", str(tmp_path)], catch_exceptions=False)


def test_the_help_of_the_command_imports_nothing_heavy() -> None:
    code = (
        "import sys; from agentfw_cli.data import data; "
        "data(['make', 'calendar', '--help'], standalone_mode=False); "
        "print(sorted({'numpy', 'yaml', 'pydantic', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
