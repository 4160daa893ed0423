"""What was answered is on disk, also when the gateway is killed at that moment."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from agentfw.runs import RunFolder, read_sessions

from .killing import kill_under_load, lost, start

pytest.importorskip("uvicorn")


@pytest.mark.slow
def test_nothing_that_was_answered_is_lost_and_sessions_go_on(tmp_path: Path) -> None:
    run, answered = kill_under_load(tmp_path, answers=40)

    assert len(answered) >= 40
    assert lost(run, answered) == []
    process, url, _ = start(tmp_path, "--resume", run.name)
    name = answered[0][0]
    body = {"model": "scripted", "messages": [{"role": "user", "content": "still there?"}]}
    answer = httpx.post(f"{url}/s/{name}/v1/chat/completions", json=body)
    rated = subprocess.run(
        [sys.executable, "-m", "agentfw", "feedback", name, "good", "--end", "--url", url],
        capture_output=True,
        text=True,
        check=True,
    )
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert answer.status_code == 200
    assert "reward 1.0" in rated.stdout
    folder = RunFolder.open(run)
    assert folder.state == "done"
    assert sorted({episode.task.query for episode in folder.episodes()}) == sorted(
        {name for name, _ in answered} | {one.task.query for one in read_sessions(run)}
    )
