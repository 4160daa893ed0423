"""A run folder tells what it is, and what is wrong with it."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentfw.errors import RunFolderError, StorageError, UnknownNameError
from agentfw.runs.records.folder import FORMAT, RunFolder, find_run, list_runs

ABOUT: dict[str, Any] = {
    "headline": "error",
    "episodes": 4,
    "updates": 0,
    "spec": {
        "environment": {"name": "guessing"},
        "policy": {"name": "hashing"},
        "memories": [],
        "interface": "event_driven",
    },
}


def make(root: Path, environment: str = "guessing") -> RunFolder:
    return RunFolder.create(root, environment, ABOUT)


def change(folder: RunFolder, **values: Any) -> None:
    file = folder.path / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_a_folder_that_is_no_run_is_refused_with_what_to_do(tmp_path: Path) -> None:
    for name, fix in {
        "letters.txt": "pass the folder of a run",
        "run.json.1.new": "remove it, nothing is lost",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text('{"form')

        with pytest.raises(RunFolderError, match="it has no run") as caught:
            RunFolder.open(tmp_path / name)

        assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"format": 1}, "is in format 1; this version of agentfw reads and writes format 3"),
        ({"format": "old"}, "is in format old"),
        ({"spec": {}}, "'interface' is missing"),
        ({"episodes": None}, "can't be read"),
        ({"spec": {**ABOUT["spec"], "memories": None}}, "can't be read"),
    ],
)
def test_a_run_json_of_another_kind_is_refused(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    folder = make(tmp_path)
    change(folder, **changed)

    with pytest.raises(RunFolderError, match=re.escape(words)) as caught:
        RunFolder.open(folder.path)

    assert caught.value.fix


def test_only_a_folder_of_a_newer_format_is_told_to_upgrade(tmp_path: Path) -> None:
    folder, fixes = make(tmp_path), list[str]()
    for found in (FORMAT + 1, FORMAT - 1):
        change(folder, format=found)
        with pytest.raises(RunFolderError, match=f"is in format {found}") as caught:
            RunFolder.open(folder.path)
        fixes.append(caught.value.fix)

    assert fixes == ["pip install --upgrade agentfw", "open it with the version that made it, or run its spec again"]


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A folder whose contents this process may read and not change: it gives up root where it is root."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        os.seteuid(user)
        for path in (folder, *folder.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_a_folder_that_nobody_may_write_to_can_be_looked_at(nobody: Path) -> None:
    folder = make(nobody)
    (folder.path / "run.json").chmod(0o644)  # its owner lets others read it
    folder.path.chmod(0o555)
    nobody.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)

    assert [each.state for each in list_runs(nobody)] == ["interrupted"]
    with pytest.raises(StorageError, match="Permission denied"):
        folder.lock()
    with pytest.raises(StorageError, match=r"can.t make a run folder .* Permission denied"):
        make(nobody)


def test_a_list_passes_over_what_is_no_run_and_has_the_newest_first(tmp_path: Path) -> None:
    first, second, third = (make(tmp_path) for _ in range(3))
    (tmp_path / "letters.txt").touch()
    (tmp_path / "foreign").mkdir()
    change(second, created="2026-11-21T10:00:00+05:00")
    change(first, created="2026-11-21T06:00:00+00:00")
    change(third, created="2026-11-21T09:00:00+02:00")

    assert [folder.id for folder in list_runs(tmp_path)] == [third.id, first.id, second.id]
    assert find_run(tmp_path, "last").id == third.id
    assert list(list_runs(tmp_path / "missing")) == []


def test_a_run_that_is_not_there_is_told_with_the_nearest(tmp_path: Path) -> None:
    folder = make(tmp_path)
    wrong = folder.id[:-1] + ("0" if folder.id[-1] != "0" else "1")

    with pytest.raises(UnknownNameError, match=f'no run is called "{wrong}"; did you mean "{folder.id}"'):
        find_run(tmp_path, wrong)
    with pytest.raises(UnknownNameError, match=f'did you mean "{folder.id[-4:]}"'):
        find_run(tmp_path, wrong[-4:])
    for name in ("", "last"):
        with pytest.raises(UnknownNameError):
            find_run(tmp_path / "empty", name)
    with pytest.raises(RunFolderError, match="it has no run"):
        find_run(tmp_path, str(tmp_path))


def test_an_end_that_fits_two_runs_is_refused(tmp_path: Path) -> None:
    for number in (1, 2):
        make(tmp_path).path.rename(tmp_path / f"{number}-same")

    with pytest.raises(RunFolderError, match='"same" matches 2 runs'):
        find_run(tmp_path, "same")


def test_records_that_are_json_but_not_ours_are_refused_with_file_and_line(tmp_path: Path, laboratory: Any) -> None:
    folder = laboratory.play(tmp_path).folder
    for name, read in (("episodes", lambda: list(folder.episodes())), ("metrics", folder.metrics)):
        file = folder.path / f"{name}.jsonl"
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join([lines[0], b'{"tea": "cold"}\n', *lines[1:]]))

        with pytest.raises(RunFolderError, match=rf"{name}\.jsonl, line 2"):
            read()
