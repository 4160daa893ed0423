"""Kept results say which source they measured, and what differs when their program runs again."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

import agentfw
from agentfw_benchmarks.kept import Kept, keep, measure, read
from agentfw_benchmarks.tables import print_result

refresh = importlib.import_module("refresh")


@pytest.fixture(scope="module")
def measured() -> Kept:
    return measure(["benchmarks/inbox_interfaces.py", "--seeds", "1", "--jobs", "1"])


def test_a_result_is_kept_with_its_command_and_read_again(measured: Kept, tmp_path: Path) -> None:
    keep(tmp_path / "inbox.json", measured)

    assert read(tmp_path / "inbox.json") == measured
    assert measured.command == "python benchmarks/inbox_interfaces.py --seeds 1 --jobs 1"
    assert measured.result
    assert measured.shown


def test_a_result_is_older_than_code_that_it_measured_and_that_changed(measured: Kept) -> None:
    assert {"benchmarks/inbox_interfaces.py", "framework/agentfw"} <= set(measured.sources)
    assert measured.changed() == []

    edited = replace(measured, sources={**measured.sources, "framework/agentfw": "0", "framework/gone": "1"})

    assert edited.changed() == ["framework/agentfw", "framework/gone"]


def test_kept_results_are_listed_as_plain_data_and_no_other_name_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    rows = refresh.main(["--json"])

    assert json.loads(capsys.readouterr().out) == rows
    assert all(set(row) == {"name", "command", "date", "commit", "changed"} for row in rows)
    with pytest.raises(SystemExit):
        refresh.main(["nothing", "--run"])
    assert "no result is kept as nothing" in capsys.readouterr().err


def test_a_result_that_is_printed_from_runs_of_earlier_code_is_not_kept(tmp_path: Path) -> None:
    run = agentfw.run("inbox", episodes=1, runs=tmp_path / "runs")
    program = tmp_path / "printing.py"
    printed = f"json.dumps(RunFolder.open(pathlib.Path({str(run.folder.path)!r})).id)"
    program.write_text(f"from agentfw.runs import RunFolder\nimport json, pathlib\nprint({printed})\n")
    assert measure([str(program)]).result == run.folder.id

    lock = run.folder.path / "package" / "lock.json"
    values = json.loads(lock.read_text())
    values["distributions"]["agentfw"]["digest"] = "0" * 32
    lock.write_text(json.dumps(values))

    with pytest.raises(SystemExit, match="played with other sources: agentfw"):
        measure([str(program)])


def test_a_result_is_printed_with_intervals_and_alike_records_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    figure = {"mean": 0.5, "low": 0.4, "high": 0.6}
    arms = {"graph": {"right": figure, "tries": 3}, "vectors": {"right": {**figure, "p": 0.25}, "tries": None}}

    print_result({"arms": arms, "people": 4, "before": [0.5, 0.4, 0.6], "sets": [{"name": "xquad", "systems": arms}]})

    told = capsys.readouterr().out.split("\n\n")
    assert told[0].splitlines() == ["people: 4", "before: 0.500 [0.400, 0.600]"]
    assert [line.split() for line in told[1].splitlines()][1:] == [
        *(["right", "tries"], ["graph", "0.500", "[0.400,", "0.600]", "3"]),
        ["vectors", "0.500", "[0.400,", "0.600],", "p", "=", "0.25"],
    ]
    assert "name: xquad" in told[2]
    assert told[3].splitlines()[1:] == told[1].splitlines()[1:]
