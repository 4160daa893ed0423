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
    result = load("calendar_edits").main(["--edits", "12", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    for place, counts in result.items():
        assert counts["decided"] > 0, place
        assert counts["undone"] > 0, place
        for name in ("wrongly applied", "asked though unchanged", "not restored", "edit lost", "mark left"):
            assert counts[name] == 0, (place, name)


@pytest.mark.slow
def test_always_saves_questions_and_declines_nothing_wrongly(capsys: pytest.CaptureFixture[str]) -> None:
    result = load("calendar_people").main(["--people", "2", "--weeks", "8", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    each, always = (result[way]["weeks 5 to 13"] for way in ("each answered", "always"))
    assert always["questions a week"]["mean"] <= each["questions a week"]["mean"] * 0.75
    assert sum(row["wrong declines"] for way in result.values() for row in way.values()) == 0


@pytest.mark.slow
def test_weeks_of_yes_change_nothing_of_what_is_proposed_later(capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--persons", "2", "--months", "1", "--answered", "1", "--json"]
    ways = load("six_months").main(size)["ways"]
    assert json.loads(capsys.readouterr().out)["ways"] == ways
    assert ways["yes"]["acceptance"] == ways["nothing"]["acceptance"]
    # What was learned would have shown.
    assert ways["unread"]["acceptance"] != ways["nothing"]["acceptance"]
