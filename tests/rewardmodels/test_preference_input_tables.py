"""Tables come in many kinds; what is wrong is said with its row, and what is superfluous is settled and counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentfw_rewardmodels import BadInputError
from agentfw_rewardmodels.preference.input_tables import read_interactions, read_items, read_profile, read_profiles

ROWS = [{"user": "ana", "item": "zoo", "value": 5.0}, {"user": "bob", "item": "sea", "value": 0.0}]


@pytest.mark.slow
def test_one_table_reads_the_same_from_every_kind_of_source(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "likes.csv").write_text("user,item,value\nana,zoo,5\nbob,sea,0\n")
    (tmp_path / "likes.tsv").write_text("user\titem\tvalue\nana\tzoo\t5\nbob\tsea\t0\n")
    (tmp_path / "likes.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS))
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


def test_a_like_that_comes_twice_counts_once() -> None:
    table = read_interactions([("ana", "zoo"), ("ana", "zoo"), ("ana", "sea")])

    assert table.likes == (("ana", "zoo"), ("ana", "sea"))
    assert table.duplicates == 1


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("ana", "zoo"), ("bob", "")], "row 2 of the interactions has no valid item"),
        ([("ana", "zoo", "often")], "row 1 of the interactions has an invalid value: 'often'"),
        ([("ana", "zoo", float("nan"))], "has an invalid value: nan"),
        ([("ana",)], "row 1 of the interactions is"),
        ([{"person": "ana", "item": "zoo"}], 'has no "user"'),
        (7, "of type int, not a table"),
        ("likes.xls", "unknown file type"),
        ("nowhere.csv", "can't be read"),
    ],
)
def test_a_wrong_row_is_named_and_how_to_mend_it(rows: object, says: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_interactions(rows)

    assert says in caught.value.message
    assert caught.value.fix


def test_numbers_are_names_as_well() -> None:
    assert read_interactions([(7, 12.0)]).likes == (("7", "12"),)


def test_an_item_without_a_text_is_one_that_has_none() -> None:
    assert read_items([("zoo", "animals"), ("sea", None), ("bar", "  "), ("inn", float("nan"))]) == {"zoo": "animals"}


def test_an_item_has_one_text() -> None:
    with pytest.raises(BadInputError, match='"zoo" has two texts'):
        read_items([("zoo", "animals"), ("zoo", "elephants")])


def test_a_profile_is_one_text_or_any_named_views() -> None:
    assert read_profiles({"ana": "likes art", "bob": {"job": "cook", "age": ""}, "cyd": {}}) == {
        "ana": {"profile": "likes art"},
        "bob": {"job": "cook"},
    }
    assert read_profiles([{"user": "ana", "job": "cook", "city": "Graz"}]) == {"ana": {"city": "Graz", "job": "cook"}}
    with pytest.raises(BadInputError, match="neither a string nor a mapping"):
        read_profile(["cook"])
