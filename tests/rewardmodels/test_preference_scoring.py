"""Scoring and its measures: the same answers as the plain formulas would give, found faster."""

from __future__ import annotations

import numpy as np
import pytest

from agentfw_rewardmodels import PreferenceSettings
from agentfw_rewardmodels.preference.formulas import UserVectors, normalised
from agentfw_rewardmodels.preference.scoring import Scorer, recall_and_ndcg, top

DIMENSIONS, TEXT = 8, 12


def scorer(items: int, seed: int = 0, average: np.ndarray | None = None) -> tuple[Scorer, np.ndarray]:
    generator = np.random.default_rng(seed)
    texts = normalised(generator.normal(size=(items, TEXT)).astype(np.float32))
    weights = {
        "action.weight": generator.normal(size=(DIMENSIONS, TEXT)).astype(np.float32),
        "action.bias": np.zeros(DIMENSIONS, np.float32),
    }
    rows = generator.normal(size=(items, DIMENSIONS)).astype(np.float32)
    settings = PreferenceSettings(dimensions=DIMENSIONS, beyond_average=average is not None)
    return Scorer(rows, texts, weights, settings, average), texts


def user_vectors(count: int) -> UserVectors:
    generator = np.random.default_rng(5)
    one, two, three = (normalised(generator.normal(size=(count, DIMENSIONS)).astype(np.float32)) for _ in range(3))
    return UserVectors(one, two, three, np.full(count, 0.5, np.float32))


@pytest.mark.parametrize("items", [3, 10, 1000])
def test_the_nearest_items_are_those_that_sorting_all_would_find(items: int) -> None:
    searched, texts = scorer(items)
    asked = normalised(np.random.default_rng(1).normal(size=(50, TEXT)).astype(np.float32))

    near = searched.nearest(asked)

    alike = asked @ texts.T
    wanted = np.sort(alike, axis=1)[:, ::-1][:, : min(10, items)]
    np.testing.assert_allclose(near.similarity, wanted, atol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(alike, near.items, 1), wanted, atol=2e-4)
    np.testing.assert_allclose(near.weight.sum(1), 1, atol=1e-5)
    alone = [searched.nearest(one[None]).items[0] for one in asked]
    assert (np.array(alone) == near.items).all()


def test_interest_beyond_the_average_is_what_the_average_user_does_not_tell() -> None:
    users = user_vectors(40)
    average = users.interest[:20].mean(0)
    row = average[None]
    of_average = UserVectors(row, row, row, np.ones(1, np.float32)).of(np.zeros(300, int))

    for mean in (None, average):
        searched, texts = scorer(300, average=mean)
        places = searched.places(texts)
        told = scorer(300)[0].scores(of_average, places).interest_z
        alike = [
            float(np.corrcoef(searched.scores(users.of(np.full(300, user)), places).interest_z, told)[0, 1])
            for user in range(20)
        ]
        if mean is None:
            assert np.mean(alike) > 0.1
        else:
            assert np.abs(alike).max() < 1e-3
            one = searched.scores(users.of(np.full(300, 3)), places)
            assert float(one.interest_z.std()) == pytest.approx(1, abs=1e-3)


def test_rankings_are_judged_by_hand() -> None:
    scores = np.array([[0.1, 0.9, 0.5, 0.4], [0.2, 0.2, 0.2, 0.1]])

    assert top(scores, 3).tolist() == [[1, 2, 3], [0, 1, 2]]
    recall, ndcg = recall_and_ndcg(top(scores, 2), [{1, 3}, {1}])
    assert recall.tolist() == [0.5, 1.0]
    assert ndcg.tolist() == pytest.approx([1 / (1 + 1 / np.log2(3)), 1 / np.log2(3)])
