"""The preference model's benchmarks run, in a small size, so that none of them rots."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.nightly

pytest.importorskip("torch")
pytest.importorskip("safetensors")

load = importlib.import_module


@pytest.mark.slow
def test_films_are_compared_on_every_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch_geometric")
    generator = np.random.default_rng(4)
    ratings = {(user, 2 * int(n) + user % 2) for user in range(50) for n in generator.integers(0, 30, 25)}
    lines = ["user_id:token\titem_id:token\trating:float", *(f"{user}\t{item}\t5" for user, item in sorted(ratings))]
    (tmp_path / "tiny.inter").write_text("\n".join(lines))
    people = [f"{user}\t{20 + user}\t{'FM'[user % 2]}\t{('judge', 'cook')[user % 2]}" for user in range(50)]
    columns = "user_id:token\tage:token\tgender:token\toccupation:token"
    (tmp_path / "tiny.user").write_text("\n".join([columns, *people]))
    given = ["--data", str(tmp_path), "--name", "tiny", "--seeds", "2", "--epochs", "6"]

    result = load("preference").main(["movielens", *given, "--json"])

    assert json.loads(capsys.readouterr().out) == result
    for split in ("usual", "intervened", "cold"):
        sides = {row["side"]: row["recall"]["mean"] for row in result["splits"][split]}
        assert sides["preference model"] > sides["popularity"]
    assert {"usual", "intervened", "cold"} == set(result["splits"])
