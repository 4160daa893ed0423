"""The benchmarks of the assistant's world and of its loop, in small sizes."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

load = importlib.import_module


def test_the_last_likes_of_each_user_become_requests(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    likes = [("ana", f"m{place}", "4", str(20 - place)) for place in range(14)] + [("ben", "m0", "5", "1")]
    tables = {
        "inter": [("user_id:token", "item_id:token", "rating:float", "timestamp:float"), *likes],
        "item": [("item_id:token", "movie_title:token_seq", "release_year:token", "class:token_seq")]
        + [(f"m{place}", f"Movie {place}", "1995", "Comedy Drama") for place in range(14)],
        "user": [("user_id:token", "age:token", "gender:token", "occupation:token"), ("ana", "24", "F", "pilot")],
    }
    for name, body in tables.items():
        (data / f"ml-100k.{name}").write_text("\n".join("\t".join(row) for row in body))

    facts = load("loop_movielens").write_log(data, tmp_path / "log")

    assert facts == {"interactions": 8, "requests": 6, "items": 14, "profiles": 1}
    requests = (tmp_path / "log" / "requests.csv").read_text().split()
    assert requests == ["user,item", *(f"ana,m{place}" for place in range(5, -1, -1))]


@pytest.mark.slow
def test_what_it_pays_to_learn_the_user_is_told_by_day(tmp_path: Path) -> None:
    found = load("assistant_rise").main(["--work", str(tmp_path), "--seeds", "1", "--users", "8", "--days", "10"])

    stopped, none = (found["leads"][arm] for arm in ("memory stopped", "no memory"))
    assert found["fifths"] == ["1 to 2", "3 to 4", "5 to 6", "7 to 8", "9 to 10"]
    # On the first day nobody has said anything, and on the second both memories know the same.
    assert stopped[0]["mean"] == pytest.approx(0)
    assert {row["mean"] for row in none} != {0.0}
