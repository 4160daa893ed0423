"""Parts of the preference model: its tables, scoring and its measures, and what is expected by a profile alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentfw_rewardmodels import BadInputError
from agentfw_rewardmodels.preference.cold_start import fit_cold_start, predict_from_profiles
from agentfw_rewardmodels.preference.input_tables import read_interactions, read_items, read_profile, read_profiles
from agentfw_rewardmodels.preference.scoring import recall_and_ndcg, top

ROWS = [{"user": "ana", "item": "zoo", "value": 5.0, "why": "a\u2028b"}, {"user": "bob", "item": "sea", "value": 0.0}]


def test_one_table_reads_the_same_from_every_kind_of_source(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "likes.csv").write_text("\ufeffuser,item,value\nana,zoo,5\nbob,sea,0\n")  # as Excel writes it
    (tmp_path / "likes.tsv").write_text("user\titem\tvalue\nana\tzoo\t5\nbob\tsea\t0\n")
    (tmp_path / "likes.jsonl").write_text("\ufeff" + "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS))
    parquet.write_table(arrow.Table.from_pylist(ROWS), tmp_path / "likes.parquet")
    sources = [
        ROWS,
        iter(ROWS),
        [("ana", "zoo", 5), ("bob", "sea", 0)],
        arrow.Table.from_pylist(ROWS),
        *sorted(tmp_path.iterdir()),
        *map(str, tmp_path.iterdir()),
    ]

    tables = [read_interactions(source) for source in sources]

    assert {(table.likes, table.dislikes) for table in tables} == {((("ana", "zoo"),), (("bob", "sea"),))}


def test_of_a_like_and_a_dislike_the_later_one_counts() -> None:
    by_order = read_interactions([("ana", "zoo", 1), ("ana", "zoo", 0)])
    by_time = read_interactions([("ana", "zoo", 1, 20), ("ana", "zoo", 0, 10)])

    assert (by_order.likes, by_order.dislikes, by_order.contradictions) == ((), (("ana", "zoo"),), 1)
    assert (by_time.likes, by_time.dislikes, by_time.contradictions) == ((("ana", "zoo"),), (), 1)


def test_numbers_are_names_and_an_item_without_a_text_has_none() -> None:
    items = [("zoo", "animals"), ("sea", None), ("bar", "  "), ("inn", float("nan"))]

    assert read_interactions([(7, 12.0)]).likes == (("7", "12"),)
    assert read_items(items) == {"zoo": "animals"}


def test_a_profile_is_one_text_or_any_named_views() -> None:
    assert read_profiles({"ana": "likes art", "bob": {"job": "cook", "age": ""}, "cyd": {}}) == {
        "ana": {"profile": "likes art"},
        "bob": {"job": "cook"},
    }
    assert read_profiles([{"user": "ana", "job": "cook", "city": "Graz"}]) == {"ana": {"city": "Graz", "job": "cook"}}
    with pytest.raises(BadInputError, match="neither a string nor a mapping"):
        read_profile(["cook"])


# Scoring


def test_rankings_are_judged_by_hand() -> None:
    scores = np.array([[0.1, 0.9, 0.5, 0.4], [0.2, 0.2, 0.2, 0.1]])

    assert top(scores, 3).tolist() == [[1, 2, 3], [0, 1, 2]]
    recall, ndcg = recall_and_ndcg(top(scores, 2), [{1, 3}, {1}])
    assert recall.tolist() == [0.5, 1.0]
    assert ndcg.tolist() == pytest.approx([1 / (1 + 1 / np.log2(3)), 1 / np.log2(3)])


# Somebody of whom there is a profile alone


def world(users: int, told: float, seed: int = 3) -> tuple[Any, Any, Any]:
    """Profiles of three views, where these users stand, and how standing follows from profiles; the rest is chance."""
    generator = np.random.default_rng(seed)
    profiles = np.asarray(generator.normal(0.2, 1.0, (users, 12)), np.float32)
    rule = generator.normal(0.0, 1.0, (12, 4))
    chance = generator.normal(0.0, 1.0, (users, 4))
    return profiles, np.asarray(2.0 + told * profiles @ rule + chance, np.float32), told * rule


def test_profiles_are_believed_as_far_as_they_told_of_others() -> None:
    for told in (0.0, 0.1, 1.0):
        profiles, standing, rule = world(400, told)
        newcomers, _, _ = world(400, told, seed=4)

        found = predict_from_profiles(newcomers, fit_cold_start(profiles, standing))

        error = ((found - (2.0 + newcomers @ rule)) ** 2).mean()
        # Everything that chance lets one learn: 12 of 400 degrees of freedom, and never more than was to be told.
        assert error < min(2 * 13 / 400, 0.02 + (newcomers @ rule).var()), told


@pytest.mark.parametrize("alike", [np.zeros((5, 3)), np.ones((5, 3)), np.ones((1, 3))])
def test_of_profiles_that_are_all_alike_what_everybody_is_like_is_expected(alike: Any) -> None:
    standing = np.arange(2.0 * len(alike), dtype=np.float32).reshape(-1, 2)

    found = predict_from_profiles(np.ones_like(alike), fit_cold_start(alike, standing))

    assert found == pytest.approx(np.tile(standing.mean(0), (len(alike), 1)))
