"""Each benchmark of agentfw-calendar runs, in a small size. What it measures here is no figure to quote."""

from __future__ import annotations

import importlib
import json

import pytest

pytestmark = pytest.mark.nightly

load = importlib.import_module


@pytest.mark.slow
def test_no_decision_is_applied_to_what_changed_and_undo_restores_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("caldav", "radicale"):
        pytest.importorskip(module)
    result = load("calendar_edits").main(["--decisions", "12", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    for place, counts in result.items():
        assert counts["decided"] > 0, place
        assert counts["undone"] > 0, place
        names = ("wrongly applied", "asked though unchanged", "not restored", "not as meant", "edit lost", "mark left")
        for name in names:
            assert counts[name] == 0, (place, name)


@pytest.mark.slow
def test_lives_are_decided_and_nothing_goes_wrong_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("calendar_lives").main(["--people", "8", "--weeks", "3", "--jobs", "1", "--json"])

    assert json.loads(capsys.readouterr().out) == result
    assert all(row["people"] == 4 and row["wrong unasked"] == 0 for row in result.values())


@pytest.mark.slow
def test_nothing_of_a_trip_is_declined(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("calendar_trips").main(["--trips", "8", "--json"])

    assert json.loads(capsys.readouterr().out) == result
    assert [row["events of a trip declined"] for row in result.values()] == [0, 0]


@pytest.mark.slow
def test_people_are_written_to_in_their_language(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("calendar_trips").main(["--letters", "48", "--json"])

    assert json.loads(capsys.readouterr().out) == result
    assert all(row["letters"] >= 24 and row["in the right language"]["mean"] >= 0.95 for row in result.values())


@pytest.mark.slow
def test_blocks_clash_with_nothing_and_no_task_is_late_unsaid(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("calendar_lives").main(["--blocks", "6", "--jobs", "1", "--json"])

    assert json.loads(capsys.readouterr().out) == result
    assert result["placed"] > 0
    assert [result[name] for name in ("clashes", "late, unsaid", "said though there is room")] == [0, 0, 0]
