"""Calls of each component, where something failed, and the call that a process died in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import SITE, Agentfw

FAILING = """
import os
from pathlib import Path
from agentfw import Component, Generation, Policy, hookimpl
from agentfw.episode import Call
from agentfw.tool import tool

@tool
def look(at: str) -> str:
    '''Look at something.'''
    if Path("deadly").exists():
        os._exit(9)
    raise OSError("it is dark")

def box():
    return look

class Looking(Policy):
    async def generate(self, request):
        called = any(message.role == "tool" for message in request.messages)
        return Generation("", calls=() if called else (Call("look", {"at": "the moon"}),))

@hookimpl
def agentfw_tools():
    return [Component("telescope", f"{__name__}:box", "")]

@hookimpl
def agentfw_policies():
    return [Component("looking", f"{__name__}:Looking", "")]
"""
RUN = ("run", "guessing", "--policy", "looking", "--tool", "telescope", "--episodes", "3")
ROW = 'the tool look of tool "telescope" of agentfw-failing 1.0.0'


@pytest.mark.slow
def test_a_tool_that_fails_at_each_call_is_in_the_table(agentfw: Agentfw, install: Callable[..., None]) -> None:
    install("agentfw-failing", "[agentfw]\nfailing = agentfw_failing\n", FAILING)

    answer = agentfw(*RUN)

    assert answer.code == 0, answer.err
    (row,) = [line for line in answer.out.splitlines() if ROW in line]
    calls, failed = row.removeprefix(ROW).split()[:2]
    assert calls == failed != "0"
    assert 'policy "looking"' not in answer.out, "only what failed"
    shown = agentfw("runs", "show", "last")
    assert ROW in shown.out
    assert 'policy "looking" of agentfw-failing 1.0.0' in shown.out
    (found,) = [row for row in agentfw("runs", "show", "last", "--json").json["calls"] if row["title"] == ROW]
    assert found["calls"] == found["failures"] == int(calls)
    (report,) = Path("runs").glob("*/report.html")
    assert "the tool look of tool" in report.read_text("utf-8")


@pytest.mark.slow
def test_the_call_that_a_process_died_in_is_named(agentfw: Agentfw, install: Callable[..., None]) -> None:
    install("agentfw-failing", "[agentfw]\nfailing = agentfw_failing\n", FAILING)
    Path("deadly").touch()
    path = os.pathsep.join([str(Path("site").resolve()), str(SITE)])
    command, environment = [sys.executable, "-m", "agentfw", *RUN], {**os.environ, "PYTHONPATH": path}
    died = subprocess.run(command, capture_output=True, check=False, text=True, env=environment)
    assert died.returncode == 9, died.stderr

    shown = agentfw("runs", "show", "last")
    Path("deadly").unlink()
    resumed = agentfw("runs", "resume", "last")

    assert 'was running when the process ended: tool "telescope" of agentfw-failing 1.0.0 in the tool look' in shown.err
    assert resumed.code == 0, resumed.err
    assert "when the run ended before, this was running: " in resumed.err
    assert 'tool "telescope" of agentfw-failing 1.0.0 in the tool look' in resumed.err
    assert "running when" not in agentfw("runs", "show", "last").err
    assert json.loads(agentfw("runs", "show", "last", "--json").out)["running"] == []
