"""Runs of earlier versions open with this one, go on with it, and say what has changed.

`folders/VERSION-NAME` was written by that version, without its pictures: `agentfw run inbox --episodes 2 --set
environment.horizon=8 --set window=4 --memory strategyhub`.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from agentfw import Host, Run
from agentfw.runs import RunFolder, Summary
from agentfw.testing import fresh_host
from agentfw.version import __version__

FOLDERS = Path(__file__).parent / "folders"
NAMES = [folder.name for folder in sorted(FOLDERS.iterdir())]


@pytest.fixture(scope="module")
def host() -> Host:
    return fresh_host(builtins=True, strict=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_an_earlier_version_is_read_whole(name: str) -> None:
    folder = RunFolder.open(FOLDERS / name)
    record = folder.summary()

    assert record is not None
    summary = Summary.from_record(record)
    assert folder.state == "done"
    assert len(list(folder.episodes())) == len(folder.metrics()) == summary.episodes == 2
    assert summary.figures[folder.headline].count == 2
    assert folder.about["description"] == ""
    assert [line["headline_by_round"] for line in folder.metrics()] == [[], []]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_an_earlier_version_goes_on_and_says_what_has_changed(name: str, host: Host, tmp_path: Path) -> None:
    shutil.copytree(FOLDERS / name, tmp_path / name)
    whole = RunFolder.open(FOLDERS / name)
    (tmp_path / name / "summary.json").unlink()
    for journal in ("episodes.jsonl", "metrics.jsonl"):
        file = tmp_path / name / journal
        file.write_text(file.read_text("utf-8").splitlines(keepends=True)[0], "utf-8")
    host.notes.clear()

    run = Run.open(RunFolder.open(tmp_path / name), host)
    summary = asyncio.run(run.execute())

    assert ("is read as format 3" in "\n".join(host.notes)) == (whole.about["format"] == 2)
    before = str(whole.about["agentfw"])
    assert any(before in note and __version__ in note for note in host.notes), host.notes
    assert summary.episodes == 2
    keys = ("episode", "reward", "utility", "outcome", "turns", "tokens", "finish")
    played, before_then = ([[line[key] for key in keys] for line in each.metrics()] for each in (run.folder, whole))
    assert played == before_then, "the episode that is played now is the one that was played then"
