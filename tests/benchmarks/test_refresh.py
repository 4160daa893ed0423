"""Kept results say which source they measured, and what differs when their program runs again."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

import agentfw
from agentfw_benchmarks.kept import Kept, keep, measure, read
from agentfw_benchmarks.numbers import differences, numbers
from agentfw_benchmarks.page_figures import figures_of

refresh = importlib.import_module("refresh")


@pytest.fixture(scope="module")
def measured() -> Kept:
    return measure(["benchmarks/inbox_interfaces.py", "--seeds", "1", "--jobs", "1"])


@pytest.mark.slow
def test_a_result_is_kept_with_its_command_and_read_again(measured: Kept, tmp_path: Path) -> None:
    keep(tmp_path / "inbox.json", measured)

    assert read(tmp_path / "inbox.json") == measured
    assert measured.command == "python benchmarks/inbox_interfaces.py --seeds 1 --jobs 1"
    assert measured.result
    assert measured.shown


@pytest.mark.slow
def test_a_result_is_older_than_code_that_it_measured_and_that_changed(measured: Kept) -> None:
    assert {"benchmarks/inbox_interfaces.py", "framework/agentfw"} <= set(measured.sources)
    assert measured.changed() == []

    edited = replace(measured, sources={**measured.sources, "framework/agentfw": "0", "framework/gone": "1"})

    assert edited.changed() == ["framework/agentfw", "framework/gone"]


def test_figures_that_left_their_interval_are_told_from_those_within() -> None:
    before = {"a": {"mean": 0.5, "low": 0.4, "high": 0.6}, "b": [0.5, 0.4, 0.6], "same": 3, "exact": 7}
    now = {"a": {"mean": 0.55, "low": 0.5, "high": 0.7}, "b": [0.7, 0.6, 0.8], "same": 3, "exact": 8}

    found = {one.figure: one.within for one in differences(before, now)}

    assert found == {
        "a.mean": True,
        "a.low": True,
        "a.high": True,
        "b[0]": False,
        "b[1]": False,
        "b[2]": False,
        "exact": False,
    }


def test_a_printed_interval_is_read_as_one() -> None:
    found = differences(
        ["mean 0.50 [0.42, 0.58], 3 runs", "0.50 ± 0.10"], ["mean 0.57 [0.45, 0.65], 3 runs", "0.61 ± 0.10"]
    )

    assert [(one.before, one.now, one.within) for one in found] == [
        (0.50, 0.57, True),
        (0.42, 0.45, True),
        (0.58, 0.65, True),
        (0.50, 0.61, False),
    ]


def test_the_kept_results_are_listed_as_plain_data(capsys: pytest.CaptureFixture[str]) -> None:
    rows = refresh.main(["--json"])

    assert json.loads(capsys.readouterr().out) == rows
    assert all(set(row) == {"name", "command", "date", "commit", "changed"} for row in rows)


def test_a_name_that_no_result_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        refresh.main(["nothing", "--run"])

    assert "no result is kept as nothing" in capsys.readouterr().err


def test_a_figure_comes_out_again_where_it_is_within_its_interval() -> None:
    (figure,) = figures_of("<!-- figures: one -->\n0.50\n", "page.md")
    before, inside, outside = (
        numbers({"share": {"mean": mean, "low": mean - 0.08, "high": mean + 0.08}}) for mean in (0.5, 0.57, 0.59)
    )

    assert refresh.comes_out(figure, before, inside, ["share.mean"])
    assert not refresh.comes_out(figure, before, outside, ["share.mean"])


def test_a_result_that_is_printed_from_runs_of_earlier_code_is_not_kept(tmp_path: Path) -> None:
    run = agentfw.run("inbox", episodes=1, runs=tmp_path / "runs")
    program = tmp_path / "printing.py"
    program.write_text(
        f"from agentfw.runs import RunFolder\nimport json, pathlib\n"
        f"print(json.dumps(RunFolder.open(pathlib.Path({str(run.folder.path)!r})).id))\n"
    )
    assert measure([str(program)]).result == run.folder.id

    lock = run.folder.path / "package" / "lock.json"
    values = json.loads(lock.read_text())
    values["distributions"]["agentfw"]["digest"] = "0" * 32
    lock.write_text(json.dumps(values))

    with pytest.raises(SystemExit, match="played with other sources: agentfw"):
        measure([str(program)])
