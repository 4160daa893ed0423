"""Words: what texts are compared by, and an index that leaves no trace of what was taken out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw_memory.graph.index.word_index import SHARED, Question, WordIndex
from agentfw_memory.graph.words import terms

pytest.importorskip("snowballstemmer")


TEXTS = st.lists(st.sampled_from(["slot", "early", "late", "call", "mail", "order"]), max_size=6).map(" ".join)


PLACED = st.tuples(TEXTS, st.integers(0, 2))


CHANGES = st.lists(st.tuples(st.integers(1, 6), st.none() | PLACED), max_size=30)


def filled(texts: dict[int, tuple[str, int]]) -> WordIndex:
    index = WordIndex()
    for number, (text, part) in texts.items():
        index.put(number, text, part)
    return index


def scores(question: Question) -> dict[int, float]:
    found = question.best(100)
    return dict(zip(found.tolist(), question.scores(found).tolist(), strict=True))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana prefers meetings", "ana's preferred meeting"),
        ("on 2023-05-07", "the 7th of May 2023"),
        ("Die Katzen sind auf dem Sofa", "Auf dem Sofa ist eine Katze"),
        ("Где кошки в Берлине?", "Кошка была в Берлин"),
        ("मेरी बिल्ली दिल्ली में है", "बिल्ली दिल्ली"),
        ("القطط تنام في البيت", "قطط تنام البيت"),
        ("\uff49\uff30\uff48\uff4f\uff4e\uff45\u624b\u673a", "iPhone手机"),
    ],
)
def test_what_means_the_same_becomes_the_same_terms(one: str, other: str) -> None:
    assert sorted(terms(one)) == sorted(terms(other))


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("我住在柏林，喜欢喝绿茶。", "你住在哪里？"),
        ("東京の会社で働いています。", "どこの会社ですか"),
        ("ฉันอาศัยอยู่ในกรุงเทพ", "กรุงเทพ"),
        ("2015年的会议", "在15年"),
    ],
)
def test_a_part_of_a_sentence_without_spaces_is_found(text: str, question: str) -> None:
    index = filled({1: (text, SHARED), 2: ("another text", SHARED)})

    assert index.question(question, None).best(5).tolist() == [1]


def test_a_foreign_name_and_stop_words_alone_are_kept_as_they_are() -> None:
    assert terms("hotels in Las Vegas") == [*terms("hotels"), *terms("las vegas")]
    assert terms("To be or not to be") == ["to", "be", "or", "not", "to", "be"]


@settings(max_examples=50)
@given(CHANGES, TEXTS, st.integers(1, 2))
def test_after_any_changes_the_index_says_what_a_new_one_says(
    changes: list[tuple[int, tuple[str, int] | None]], query: str, reader: int
) -> None:
    index, texts = WordIndex(), dict[int, tuple[str, int]]()
    for number, placed in changes:
        texts.pop(number, None)
        if placed is None:
            index.remove(number)
        else:
            index.put(number, *placed)
            texts[number] = placed

    question, fresh = index.question(query, reader), filled(texts).question(query, reader)

    assert len(index) == len(texts)
    assert scores(question) == pytest.approx(scores(fresh))
    weights = [(one.weights.mean, one.weights.deviation) for one in (question, fresh)]
    assert weights[0] == pytest.approx(weights[1])
    assert set(scores(question)) <= {number for number, (_, part) in texts.items() if part in (SHARED, reader)}


def test_what_others_keep_private_changes_no_score() -> None:
    index = filled({1: ("offer the earliest slot", SHARED), 2: ("offer tea", SHARED)})
    before = scores(index.question("offer slot", reader=8))

    for number in range(10, 60):
        index.put(number, "slot slot slot of somebody else", part=9)

    assert scores(index.question("offer slot", reader=8)) == before


def test_a_common_word_says_less_than_a_rare_one_and_still_counts() -> None:
    index = filled(dict.fromkeys(range(1, 12000), ("common word", SHARED)))
    index.put(20_000, "rare thing", SHARED)
    index.put(20_001, "rare word", SHARED)

    question = index.question("rare word", None)

    both, rare, common = question.scores(np.array([20_001, 20_000, 1]))

    assert question.best(2).tolist() == [20_001, 20_000]
    assert both == 1.0 > rare > common > 0.0
