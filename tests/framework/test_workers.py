"""Work in processes of its own: the same answers however many there are, and nobody left behind."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import alive, until

from agentfw.errors import AgentfwError
from agentfw.runs import in_processes

SITE = Path(__file__).parents[1] / "site"

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")


@pytest.fixture(autouse=True)
def working(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Work that worker processes can import."""
    monkeypatch.syspath_prepend(str(SITE))
    return importlib.import_module("agentfw_laboratory.working")


def test_answers_come_in_the_order_of_the_jobs(working: Any) -> None:
    heard: list[int] = []
    assert in_processes(working.squared, [3, 1, 2, 0], 2, done=heard.append) == [9, 1, 4, 0]
    assert heard == [1, 2, 3, 4]


@posix
def test_a_worker_that_dies_is_told(working: Any) -> None:
    with pytest.raises(AgentfwError, match=r"a worker process died, with [12] of 2 jobs to do"):
        in_processes(working.always_die, [1, 2], 2)


def test_an_error_of_a_job_keeps_its_words_and_its_exit_code(working: Any) -> None:
    with pytest.raises(AgentfwError, match='no cup is called "glas"') as caught:
        in_processes(working.refuse, [1, 2], 2)
    assert caught.value.exit_code == 2
    assert caught.value.fix == "known: glass"


@posix
def test_workers_are_gone_when_whoever_started_them_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-m", "agentfw_laboratory.working", str(tmp_path)], env={**os.environ, "PYTHONPATH": str(SITE)}
    )
    workers = until(lambda: len(found := [*tmp_path.glob("worker-*")]) == 2 and found)
    parent.kill()
    parent.wait()
    until(lambda: not any(alive(int(path.name.partition("-")[2])) for path in workers))
