"""The programs that choose weights of the skill graph run on a few messages and say what they chose."""

from __future__ import annotations

import importlib
import json
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


def test_the_weight_of_vectors_is_measured_on_pairs_that_nobody_judged(tmp_path: Path) -> None:
    things = ("card", "bill", "loan", "parcel")
    actions = [{"text": f"ask for the {one}", "subtext": [f"a {one} has a number"]} for one in things]
    (tmp_path / "guidelines.json").write_text(json.dumps({"flow": {"subflows": {"one": {"actions": actions}}}}))
    program = importlib.import_module("embedder_weights")

    found = program.main(["--abcd", str(tmp_path), "--embedders", "hash"])

    assert found["pairs"] == 4
    assert {row["weight"] for row in found["rows"]} == set(program.WEIGHTS)
    assert all(row["other"] > 0.4 for row in found["rows"])
