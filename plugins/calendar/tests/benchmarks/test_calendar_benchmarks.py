"""Each benchmark of agentfw-calendar runs, in a small size. What it measures here is no figure to quote."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.nightly


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """What a program returns, which is also what it prints as JSON."""

    def call(name: str, *words: str) -> Any:
        result = importlib.import_module(name).main([*words, "--json"])
        assert json.loads(capsys.readouterr().out) == result
        return result

    return call


def test_no_decision_is_applied_to_what_changed_and_undo_restores_the_rest(printed: Callable[..., Any]) -> None:
    for module in ("caldav", "radicale"):
        pytest.importorskip(module)
    result = printed("calendar_edits", "--decisions", "12")
    for place, counts in result.items():
        assert counts["decided"] > 0, place
        assert counts["undone"] > 0, place
        names = ("wrongly applied", "asked though unchanged", "not restored", "not as meant", "edit lost", "mark left")
        assert {name: counts[name] for name in names} == dict.fromkeys(names, 0), place


def test_lives_are_decided_and_nothing_goes_wrong_unasked_and_no_block_clashes(printed: Callable[..., Any]) -> None:
    people = printed("calendar_lives", "--people", "8", "--weeks", "3", "--jobs", "1")
    blocks = printed("calendar_lives", "--blocks", "6", "--jobs", "1")

    assert all(row["people"] == 4 and row["wrong unasked"] == 0 for row in people.values())
    assert blocks["placed"] > 0
    assert [blocks[name] for name in ("clashes", "late, unsaid", "said though there is room")] == [0, 0, 0]


def test_nothing_of_a_trip_is_declined_and_letters_are_in_the_right_language(printed: Callable[..., Any]) -> None:
    trips, letters = printed("calendar_trips", "--trips", "8"), printed("calendar_trips", "--letters", "48")

    assert [row["events of a trip declined"] for row in trips.values()] == [0, 0]
    assert all(row["letters"] >= 24 and row["in the right language"]["mean"] >= 0.95 for row in letters.values())
