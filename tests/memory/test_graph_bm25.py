"""BM25Index: scores between 0 and 1, and no trace of what was taken out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw_memory.errors import BadInputError
from agentfw_memory.graph.bm25 import BM25Index

TEXTS = st.lists(st.sampled_from(["slot", "early", "late", "call", "mail", "order"]), max_size=6).map(" ".join)
CHANGES = st.lists(st.tuples(st.integers(0, 5), st.none() | TEXTS), max_size=30)


def filled(texts: dict[int, str]) -> BM25Index[int]:
    index: BM25Index[int] = BM25Index()
    for key, text in texts.items():
        index.add(key, text)
    return index


@pytest.mark.slow
@given(CHANGES, TEXTS)
def test_after_any_changes_it_says_what_a_new_index_says(changes: list[tuple[int, str | None]], query: str) -> None:
    index: BM25Index[int] = BM25Index()
    texts: dict[int, str] = {}
    for key, text in changes:
        texts.pop(key, None)
        if text is None:
            index.remove(key)
        else:
            index.add(key, text)
            texts[key] = text
    new = filled(texts)
    assert len(index) == len(texts)
    assert index.scores(query) == pytest.approx(new.scores(query))
    assert [key for key, _ in index.best(query, 3)] == [key for key, _ in new.best(query, 3)]


@given(st.lists(st.text(max_size=30), max_size=8), st.text(max_size=30))
def test_any_text_scores_between_nothing_and_one(texts: list[str], query: str) -> None:
    assert all(0.0 < score <= 1.0 for score in filled(dict(enumerate(texts))).scores(query).values())


def test_the_query_itself_scores_one_and_strangers_are_not_in_the_answer() -> None:
    index = filled({1: "offer the earliest slot", 2: "ask for the order number", 3: "Slot"})
    scores = index.scores("Offer the EARLIEST slot")
    assert scores[1] == 1.0
    assert 0.0 < scores[2] < scores[3] < 1.0
    assert index.scores("unheard-of") == {}
    assert filled({}).scores("anything") == {}


def test_a_rare_word_says_more_than_a_common_one() -> None:
    index = filled({1: "call mail", 2: "call order", 3: "call slot"})
    assert [key for key, _ in index.best("call order", 3)] == [2, 1, 3]


def test_only_allowed_texts_are_found_also_when_others_score_higher() -> None:
    index = filled({1: "slot slot", 2: "slot and more words", 3: "slot"})
    assert [key for key, _ in index.best("slot", 1, allowed={2})] == [2]


def test_results_below_none_are_refused() -> None:
    with pytest.raises(BadInputError, match="-1 results"):
        filled({}).best("slot", -1)
