"""The benchmarks of the assistant's world and of its loop, in small sizes."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

load = importlib.import_module


@pytest.mark.slow
def test_what_it_pays_to_learn_the_user_is_told_by_day(tmp_path: Path) -> None:
    found = load("assistant_rise").main(["--work", str(tmp_path), "--seeds", "1", "--users", "8", "--days", "10"])

    stopped, none = (found["leads"][arm] for arm in ("memory stopped", "no memory"))
    assert found["fifths"] == ["1 to 2", "3 to 4", "5 to 6", "7 to 8", "9 to 10"]
    # On the first day nobody has said anything, and on the second both memories know the same.
    assert stopped[0]["mean"] == pytest.approx(0)
    assert {row["mean"] for row in none} != {0.0}
