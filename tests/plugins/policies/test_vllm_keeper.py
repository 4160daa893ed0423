"""A server that was started here ends with whoever started it, whatever ends that."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from waiting import alive, until

KEEPER = Path(__file__).parents[3] / "plugins" / "agentfw_plugins" / "policies" / "vllm" / "vllm_keeper.py"

# A command that starts another process, as vLLM does, writes down both, and would go on for long.
FAMILY = """
import os, pathlib, signal, subprocess, sys, time
{before}
child = subprocess.Popen([sys.executable, "-c", {child!r}])
path = pathlib.Path({path!r})
path.with_suffix(".new").write_text(f"{{os.getpid()}} {{child.pid}}")
path.with_suffix(".new").rename(path)
time.sleep(600)
"""
SLEEP = "import time; time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def command(path: Path, *, deaf: bool = False) -> list[str]:
    before = "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if deaf else ""
    code = FAMILY.format(before=before, child=DEAF if deaf else SLEEP, path=str(path))
    return [sys.executable, "-I", str(KEEPER), sys.executable, "-c", code]


def family(path: Path) -> list[int]:
    until(path.exists)
    return [int(pid) for pid in path.read_text().split()]


@pytest.mark.nightly
def test_closing_the_pipe_ends_a_command_and_its_children_that_hear_no_signal(tmp_path: Path) -> None:
    keeper = subprocess.Popen(command(tmp_path / "pids", deaf=True), stdin=subprocess.PIPE, start_new_session=True)
    pids = family(tmp_path / "pids")
    assert all(alive(pid) for pid in pids)

    assert keeper.stdin is not None
    keeper.stdin.close()

    until(lambda: not any(alive(pid) for pid in pids))
    keeper.wait(300)


def test_kill_9_of_the_starter_ends_everything(tmp_path: Path) -> None:
    starter = textwrap.dedent(f"""
        import subprocess, time
        keeper = subprocess.Popen({command(tmp_path / "pids")!r}, stdin=subprocess.PIPE, start_new_session=True)
        time.sleep(600)
    """)
    process = subprocess.Popen([sys.executable, "-c", starter])
    pids = family(tmp_path / "pids")

    process.kill()
    process.wait()

    until(lambda: not any(alive(pid) for pid in pids))


def test_a_terminated_keeper_takes_its_command_along(tmp_path: Path) -> None:
    keeper = subprocess.Popen(command(tmp_path / "pids"), stdin=subprocess.PIPE, start_new_session=True)
    pids = family(tmp_path / "pids")

    keeper.send_signal(signal.SIGTERM)

    assert keeper.wait(300) != 0
    until(lambda: not any(alive(pid) for pid in pids))
