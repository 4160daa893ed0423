from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentfw.runs.records.call_record import CallRecord, call_table, read_calls, running_calls


def test_calls_are_counted_and_what_runs_is_named(tmp_path: Path) -> None:
    record = CallRecord()
    memory = record.row("memory", "notes", 'memory "notes" of acme 1.0')
    record.open(tmp_path)
    tool = record.row("tool", "search", "the tool search")  # of a toolbox that opens later
    first = memory.begin("recall()", "00001-0")
    memory.end(memory.begin("recall()", "00002-0"), seconds=0.5)
    memory.end(memory.begin("begin()"))
    tool.count(2.0, failed=True)
    tool.spend(0.25)
    second = tool.begin('a "call"')

    assert running_calls(tmp_path) == [
        'the tool search in a "call"',
        'memory "notes" of acme 1.0 in recall() of episode 00001-0',
    ]
    memory.end(first, seconds=0.5, failed=True)
    tool.end(second)
    assert running_calls(tmp_path) == []
    record.close()
    assert call_table(read_calls(tmp_path))[1] == [
        ['memory "notes" of acme 1.0', "2", "1", "1.0 s", ""],
        ["the tool search", "1", "1", "2.0 s", "0.25"],
    ]


def test_counts_go_on_when_a_run_is_resumed(tmp_path: Path) -> None:
    for _ in range(3):
        record = CallRecord()
        row = record.row("reward", "judge", "the judge")
        record.open(tmp_path)
        row.spend(0.5)
        row.count(1.0, failed=False)
        record.close()

    (line,) = read_calls(tmp_path)
    assert (line["calls"], line["seconds"], line["cost"]) == (3, 3.0, 1.5)


def test_there_may_be_many_components_and_many_calls(tmp_path: Path) -> None:
    record = CallRecord()
    record.open(tmp_path)
    rows = [record.row("tool", f"t{number}", f"the tool {number} {'x' * 500}") for number in range(200)]
    for row in rows:
        for number in range(20):
            row.begin("a" * 500, f"{number:05d}-0")

    lines = read_calls(tmp_path)
    assert len(lines) == 200
    assert [line["more"] for line in lines] == [17] * 200
    assert lines[0]["running"][-1][2] == "00019-0"
    assert {len(line) for line in (tmp_path / "calls.jsonl").read_bytes().splitlines()} == {1023}
    record.close()


def test_a_run_without_a_record_has_no_calls(tmp_path: Path) -> None:
    assert read_calls(tmp_path) == []
    assert running_calls(tmp_path) == []


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)", "faulthandler._sigsegv()"])
def test_a_process_that_dies_leaves_the_call_that_was_running(tmp_path: Path, end: str) -> None:
    code = f"""
import faulthandler, os, signal, sys
from pathlib import Path
from agentfw.runs.records.call_record import CallRecord
record = CallRecord()
row = record.row("tool", "crash", "the tool crash")
record.open(Path(sys.argv[1]))
row.end(row.begin("open()"))
row.begin("a call", "00007-0")
{end}
"""
    died = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, capture_output=True)

    assert died.returncode != 0
    assert running_calls(tmp_path) == ["the tool crash in a call of episode 00007-0"]
    assert all(json.loads(line) is not None for line in (tmp_path / "calls.jsonl").read_text("utf-8").splitlines())
