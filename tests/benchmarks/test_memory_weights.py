"""The program that chooses the weight of communities runs on a few messages and says what it chose."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

pytest.importorskip("igraph")
pytest.importorskip("wordllama")


def test_the_weight_of_communities_is_chosen_on_one_half_and_told_on_the_other(tmp_path: Path) -> None:
    path = tmp_path / "messages.csv"
    rows = [
        f"{verb} my {thing} number {place},{thing}"
        for thing in ("card", "bill", "loan")
        for place in range(4)
        for verb in ("lost", "see")
    ]
    path.write_text("text,category\n" + "\n".join(rows), "utf-8")
    program = importlib.import_module("communities")

    found = program.main(["--csv", str(path), "--teams", "2", "--length", "3", "--seeds", "1", "--weights", "0", "0.4"])

    assert found["newcomers"] == 2
    assert found["chosen"] in (0.0, 0.4)
    assert set(found["told"]) == {"0.0", "0.4"}
