"""The preference model against its formulas, computed here a second time, plainly, user by user and item by item.

A training that starts from a known model publishes the loss of its first step, which is the objective at that model's
parameters. With one step an epoch and one term switched on, it is that term. Scores are compared in the same way.

Numbers in parentheses are those of the formulas in appendix B.1 of the parpo-psgm paper, with the departures that
docs/reference/preference-model.md lists.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agentfw_rewardmodels import PreferenceModel, PreferenceSettings, open_encoder

pytest.importorskip("torch")

safetensors = pytest.importorskip("safetensors.numpy")

Rows = NDArray[np.float64]

TERMS = ("ranking_loss", "interest_loss", "conformity_loss", "orthogonality_loss", "user_loss", "action_loss", "decay")
STEP: dict[str, Any] = {"dimensions": 6, "epochs": 1, "validation": 0.0, "contrast_users": 0, "device": "cpu"}
NOTHING = PreferenceSettings.from_mapping(STEP | dict.fromkeys(TERMS, 0.0))
"""One step on all likes, with no term."""
TEXTS = {
    "moma": "museum of modern art",
    "louvre": "art museum with paintings",
    "tate": "gallery of art",
    "blue": "jazz club with live music",
    "ronnie": "jazz concert in the evening",
}
WHO_LIKES = {"ana": "moma louvre", "ben": "louvre tate moma", "cleo": "blue moma", "dora": "ronnie blue moma"}
LIKES = [(user, item) for user, items in WHO_LIKES.items() for item in items.split()]
ONE_OF_TWO = [("ana", "moma"), ("ben", "moma"), ("cleo", "moma"), ("dora", "blue"), ("emil", "blue")]
"""Everybody likes one of two items, so there is only one that can be drawn as not liked."""


def trained(likes: Sequence[tuple[str, str]], texts: Mapping[str, str] | None = None, **more: Any) -> PreferenceModel:
    """A model whose numbers are all different: a few steps from its random start."""
    settings = PreferenceSettings(dimensions=6, epochs=4, learning_rate=0.05, device="cpu", validation=0.0, **more)
    return PreferenceModel.fit(likes, items=texts, settings=settings, encoder="hash:32")


def first_loss(
    model: PreferenceModel, likes: Sequence[tuple[str, str]], texts: Mapping[str, str] | None = None, /, **weights: Any
) -> float:
    """The loss before the first step of a training that starts from the model."""
    settings = replace(NOTHING, **weights)
    return PreferenceModel.fit(likes, items=texts, settings=settings, encoder="hash:32", start=model).history[0]["loss"]


# The formulas


@dataclass(frozen=True)
class ModelView:
    """The parameters of a model before any formula was applied."""

    users: Rows
    """Embeddings before the propagation, one row a user."""
    items: Rows
    likes: NDArray[np.int64]
    """Two rows: indexes of users, and of the items that they like."""
    texts: Rows
    weights: dict[str, Rows]


def view_of(model: PreferenceModel) -> ModelView:
    """Save a model, and read its arrays. The names of the arrays stand here and in no test."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        (file,) = Path(folder).glob("*.safetensors")
        arrays: dict[str, Any] = safetensors.load_file(file)
    rows = {name: array.astype(np.float64) for name, array in arrays.items()}
    weights = {name.removeprefix("weights."): array for name, array in rows.items() if name.startswith("weights.")}
    return ModelView(rows["own_users"], rows["own_items"], arrays["likes"], rows["texts"], weights)


def unit(row: Rows) -> Rows:
    return row / math.sqrt(float(row @ row) + 1e-12)


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x))


class Formulas:
    """The quantities of the objective at the parameters of a model."""

    def __init__(self, view: ModelView, layers: int = 2) -> None:
        self.view = view
        self.pairs = list(zip(view.likes[0].tolist(), view.likes[1].tolist(), strict=True))
        users, items = len(view.users), len(view.items)
        adjacent = np.zeros((users + items, users + items))
        for user, item in self.pairs:
            adjacent[user, users + item] = adjacent[users + item, user] = 1.0
        degree = np.maximum(adjacent.sum(0), 1.0)
        adjacent /= np.sqrt(np.outer(degree, degree))
        layer = total = np.concatenate([view.users, view.items])
        for _ in range(layers):
            layer = adjacent @ layer
            total = total + layer
        self.users, self.items = np.split(total / (layers + 1), [users])  # (25)
        counts = np.bincount(view.likes[1], minlength=items)
        self.popularity = counts / counts.max()

    def linear(self, row: Rows, name: str) -> Rows:
        found: Rows = self.view.weights[f"{name}.weight"] @ row + self.view.weights[f"{name}.bias"]
        return found

    def branch(self, user: int, name: str) -> Rows:
        """(26), as a correction of the user's embedding."""
        hidden = np.maximum(self.linear(self.users[user], f"{name}.first"), 0.0)
        return unit(self.users[user] + self.linear(hidden, f"{name}.second"))

    def interest_share(self, user: int) -> float:
        """(31)"""
        gates = [np.tanh(self.linear(self.branch(user, name), "gate")) for name in ("interest", "conformity")]
        asked = [math.exp(self.view.weights["gate.asks"] @ gate) for gate in gates]
        return asked[0] / sum(asked)

    def fused(self, user: int) -> Rows:
        """(32)"""
        share = self.interest_share(user)
        return share * self.branch(user, "interest") + (1.0 - share) * self.branch(user, "conformity")

    def contrast(self, name: str, importance: Rows, temperature: float) -> float:
        """(28, 30): a liked item against the items of the batch that the user doesn't like."""
        batch, total = sorted({item for _, item in self.pairs}), 0.0
        for user, item in self.pairs:
            own = self.branch(user, name)
            scores = {one: math.exp(own @ unit(self.items[one]) / temperature) for one in batch}
            against = sum(scores[one] for one in batch if one == item or (user, one) not in self.pairs)
            total -= importance[item] * math.log(scores[item] / against)
        return total / len(self.pairs)

    def position(self, text: Rows) -> Rows:
        """(38)"""
        return unit(self.linear(text, "action"))

    def texts_apart(self) -> float:
        """(39): how far the texts of the batch are from their items."""
        batch = sorted({item for _, item in self.pairs})
        return float(np.mean([1.0 - self.position(self.view.texts[one]) @ unit(self.items[one]) for one in batch]))


@pytest.fixture(scope="module")
def art_and_jazz() -> tuple[PreferenceModel, Formulas]:
    model = trained(LIKES)
    return model, Formulas(view_of(model))


# The objective, term by term


def test_ranking_is_bpr_of_what_is_liked_above_what_is_not() -> None:
    model = trained(ONE_OF_TWO)
    at = Formulas(view_of(model))
    apart = [float(at.fused(user) @ (at.items[item] - at.items[1 - item])) for user, item in at.pairs]

    loss = first_loss(model, ONE_OF_TWO, ranking_loss=1.0)

    assert any(abs(one) > 0.01 for one in apart)
    assert loss == pytest.approx(-np.mean([log_sigmoid(one) for one in apart]), rel=1e-4)


@pytest.mark.parametrize(
    "settings",
    [{}, {"popularity_weighting": False}, {"temperature": 0.05}, {"popularity": "log"}],
    ids=["by popularity", "all alike", "at a lower temperature", "by its logarithm"],
)
@pytest.mark.parametrize("name", ["interest", "conformity"])
def test_a_branch_finds_the_liked_items_and_counts_them_by_their_popularity(
    art_and_jazz: tuple[PreferenceModel, Formulas], name: str, settings: dict[str, Any]
) -> None:
    model, at = art_and_jazz
    counts = np.bincount(at.view.likes[1])
    popularity = np.log1p(counts) / np.log1p(counts.max()) if "popularity" in settings else at.popularity
    importance = popularity if name == "conformity" else 1.0 - popularity
    importance = np.ones(len(TEXTS)) if "popularity_weighting" in settings else importance

    loss = first_loss(model, LIKES, **{f"{name}_loss": 1.0}, **settings)

    temperature = settings.get("temperature", NOTHING.temperature)
    assert loss == pytest.approx(at.contrast(name, importance, temperature), rel=1e-4)


def test_orthogonality_is_the_squared_cosine_of_both_branches(art_and_jazz: tuple[PreferenceModel, Formulas]) -> None:
    model, at = art_and_jazz
    cosines = [float(at.branch(user, "interest") @ at.branch(user, "conformity")) for user in range(4)]

    loss = first_loss(model, LIKES, orthogonality_loss=1.0)

    assert loss == pytest.approx(np.mean(np.square(cosines)), rel=1e-4)
    assert loss != pytest.approx(np.mean(cosines), rel=1e-2)


def test_users_are_told_apart_by_a_softmax_over_the_batch(art_and_jazz: tuple[PreferenceModel, Formulas]) -> None:
    model, at = art_and_jazz
    rows = np.array([unit(at.fused(user)) for user in range(4)])
    alike = np.exp(rows @ rows.T / NOTHING.temperature)

    loss = first_loss(model, LIKES, user_loss=1.0)

    assert loss == pytest.approx(-np.mean(np.log(np.diag(alike) / alike.sum(1))), rel=1e-4)


def test_texts_come_near_their_items_and_are_ranked_as_they_are() -> None:
    texts = {name: TEXTS[name] for name in ("moma", "blue")}
    model = trained(ONE_OF_TWO, texts)
    at = Formulas(view_of(model))
    places = [at.position(text) for text in at.view.texts]
    apart = [float(at.fused(user) @ (places[item] - places[1 - item])) for user, item in at.pairs]

    loss = first_loss(model, ONE_OF_TWO, texts, action_loss=1.0)

    assert loss == pytest.approx(at.texts_apart() - np.mean([log_sigmoid(one) for one in apart]), rel=1e-4)


def test_decay_is_half_the_squared_norms_of_what_a_like_touches() -> None:
    model = trained(ONE_OF_TWO)
    view = view_of(model)
    of_items = float(np.sum(view.items**2))
    sizes = [of_items + float(np.sum(view.users[user] ** 2)) for user in view.likes[0].tolist()]

    assert first_loss(model, ONE_OF_TWO, decay=1.0) == pytest.approx(np.mean(sizes) / 2, rel=1e-4)


def test_the_loss_is_the_weighted_sum_of_its_terms(art_and_jazz: tuple[PreferenceModel, Formulas]) -> None:
    model, _ = art_and_jazz
    weights = {"interest_loss": 0.3, "conformity_loss": 0.7, "orthogonality_loss": 2.0, "user_loss": 0.11}

    whole = first_loss(model, LIKES, **weights)
    parts = [weight * first_loss(model, LIKES, **{name: 1.0}) for name, weight in weights.items()]

    assert whole == pytest.approx(sum(parts), rel=1e-4)


def test_some_users_of_a_batch_estimate_the_contrast_of_all(art_and_jazz: tuple[PreferenceModel, Formulas]) -> None:
    model, _ = art_and_jazz
    standing_still: dict[str, Any] = {"learning_rate": 1e-12, "interest_loss": 1.0}
    settings = replace(NOTHING, epochs=40, contrast_users=2, **standing_still)
    drawn = [one["loss"] for one in PreferenceModel.fit(LIKES, settings=settings, start=model).history]

    error = float(np.std(drawn)) / math.sqrt(len(drawn))
    assert error > 0.0
    assert np.mean(drawn) == pytest.approx(first_loss(model, LIKES, **standing_still), abs=5 * error)


# Scores


@pytest.mark.parametrize("beyond", [False, True], ids=["all of it", "beyond the average user's"])
def test_a_score_is_what_the_formulas_give(beyond: bool) -> None:
    model = trained(LIKES, TEXTS, beyond_average=beyond)
    at, settings = Formulas(view_of(model)), model.settings
    text = "an evening of jazz"
    (query,) = open_encoder("hash:32").encode([text]).astype(np.float64)
    units = np.array([unit(row) for row in at.items])
    average = np.mean([at.branch(number, "interest") for number in range(len(model.users))], axis=0)

    def place(vector: Rows) -> Rows:
        """(43, 44, 45)"""
        similarity = at.view.texts @ vector
        weights = np.exp(similarity / settings.nearest_temperature)
        known = unit((weights / weights.sum()) @ units)
        share = settings.collaborative_share
        return unit(share * known + (1.0 - share) * at.position(vector))

    def standardised(places: Rows, own: Rows, among: Rows, *, is_interest: bool) -> Rows:
        """How much is liked what is there, among all of these; of interest what the average user doesn't tell."""
        if beyond and is_interest:
            told = among @ average
            own = own - np.cov(among @ own, told, ddof=0)[0, 1] / told.var() * average
        found: Rows = (places @ own - np.mean(among @ own)) / np.std(among @ own)
        return found

    of_texts = np.array([place(row) for row in at.view.texts])
    for number, user in enumerate(model.users):
        given, known = model.score(user, text), model.score_items([user] * len(units), model.items)
        wanted = 0.0
        for name in ("interest", "conformity"):
            own, z = at.branch(number, name), getattr(given, f"{name}_z")
            assert getattr(given, name) == pytest.approx(own @ place(query), abs=1e-3)  # (46)
            assert z == pytest.approx(
                standardised(place(query), own, of_texts, is_interest=name == "interest"), abs=0.02
            )
            of_known = standardised(units, own, units, is_interest=name == "interest")
            assert getattr(known, f"{name}_z") == pytest.approx(of_known, abs=0.02)
            wanted += getattr(settings, f"{name}_weight") * z
        assert given.score == pytest.approx(unit(at.fused(number)) @ place(query), abs=1e-3)  # (47)
        assert given.interest_share == pytest.approx(at.interest_share(number), abs=1e-4)
        assert given.reward == pytest.approx(1.0 / (1.0 + math.exp(-wanted)), abs=1e-5)  # (56)


def test_rankings_are_by_the_branch_that_was_asked_for(art_and_jazz: tuple[PreferenceModel, Formulas]) -> None:
    model, at = art_and_jazz
    units = np.array([unit(row) for row in at.items])
    for number, user in enumerate(model.users):
        for by, scores in (
            ("fused", at.items @ at.fused(number)),
            ("interest", units @ at.branch(number, "interest")),
            ("conformity", units @ at.branch(number, "conformity")),
        ):
            found = model.recommend(user, 9, by=by, seen=True)  # type: ignore[arg-type]
            assert [item for item, _ in found] == [model.items[place] for place in np.argsort(-scores)]
            assert [score for _, score in found] == pytest.approx(sorted(scores, reverse=True), abs=1e-4)
