"""`agentfw view scan`: a function or a question over many episodes, and what becomes of it when it is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chat_server import completion, serving
from command_line import Agentfw

from ..gateway.conftest import CLIENT
from .conftest import viewed
from .test_view import runs_of

EPISODES = 300
CHECKS = """
import os, signal

seen = 0

def apologised(episode):
    global seen
    seen += 1
    if str(seen) == os.environ.get("KILLED_AT"):
        os.kill(os.getpid(), signal.SIGKILL)
    return f"<b>in {episode.id}</b>" if episode.task.index % 100 == 7 else None
"""


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Path:
    """A run of many episodes."""
    folder = shutil.copytree(runs_of(recorded)[0].path, tmp_path / "runs" / "2026-11-29-inbox-many")
    first = json.loads((folder / "episodes.jsonl").read_text().splitlines()[0])
    with (folder / "episodes.jsonl").open("w") as file:
        for number in range(EPISODES):
            first["task"]["index"] = number
            file.write(json.dumps(first) + "\n")
    (folder / "metrics.jsonl").write_text("")
    (tmp_path / "checks.py").write_text(CHECKS)
    return folder


def findings(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "findings.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_a_scan_that_was_killed_half_way_goes_on_and_scans_nothing_twice(
    run: Path, agentfw: Agentfw, tmp_path: Path
) -> None:
    before = (run / "episodes.jsonl").read_bytes()
    words = ("view", "scan", run.name, "--with", "checks.py:apologised", "--json")

    killing = {**os.environ, "KILLED_AT": str(EPISODES // 2)}
    killed = subprocess.run([sys.executable, "-m", "agentfw", *words], cwd=tmp_path, env=killing)
    half = findings(run)
    whole = agentfw(*words)

    assert killed.returncode == -signal.SIGKILL
    assert len(half) == EPISODES // 2 - 1
    assert whole.code == 0, whole.err
    assert len(whole.json["found"]) == EPISODES // 100
    lines = findings(run)
    assert len(lines) == len({line["episode"] for line in lines}) == EPISODES
    assert lines[: len(half)] == half
    assert (run / "episodes.jsonl").read_bytes() == before
    with viewed(run.parent) as url:
        listed = CLIENT.get(f"{url}/?mark=found+apologised").text
        page = CLIENT.get(f"{url}/episode/{run.name}/00107-0").text
    assert f"<b>{EPISODES // 100}</b> episodes" in listed
    assert "&lt;b&gt;in 00107-0&lt;/b&gt;" in page, "a finding is text"


@pytest.mark.slow
def test_a_question_is_asked_once_about_each_episode(agentfw: Agentfw, recorded: Path, tmp_path: Path) -> None:
    run = shutil.copytree(runs_of(recorded)[1].path, tmp_path / "runs" / "2026-11-29-inbox-few")
    answers = iter(["No.", "Yes, turn 2 opens a mail that isn't there."])
    with serving(lambda body: completion(next(answers))) as (address, server):
        words = ["--ask", "Was a mail opened that isn't there?", "--at-once", "1"]
        words += ["--set", f"base_url={address}", "--set", "model=served"]
        first, again = (agentfw("view", "scan", run.name, *words, "--json") for _ in range(2))

    assert (first.code, again.code) == (0, 0), first.err
    assert first.out == again.out
    assert [one["text"] for one in first.json["found"]] == ["Yes, turn 2 opens a mail that isn't there."]
    assert len(server.bodies) == 2
    assert "mail 99" in server.bodies[0]["messages"][1]["content"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "a function or a question"),
        (("--with", "checks.py:nothing"), "is not a function"),
        (("--with", "checks.py:broken"), "checks.py:broken failed with episode 0000"),
    ],
)
def test_what_cant_be_scanned_with_is_told(
    agentfw: Agentfw, recorded: Path, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    run = shutil.copytree(runs_of(recorded)[1].path, tmp_path / "runs" / "2026-11-29-inbox-few")
    (tmp_path / "checks.py").write_text("def broken(episode):\n    return episode.nothing\n")

    answer = agentfw("view", "scan", run.name, *words)

    assert answer.code in (1, 2, 3)
    assert problem in answer.out + answer.err
