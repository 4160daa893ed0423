"""What a fitted preference model says of people whose tastes are known, because they were made up."""

from __future__ import annotations

import numpy as np
import pytest

from agentfw_rewardmodels import PreferenceModel, PreferenceSettings

pytest.importorskip("torch")

KINDS, PER_KIND, USERS = 3, 12, 36
KIND_OF = {f"i{place}": place % KINDS for place in range(KINDS * PER_KIND)}
HITS = [f"i{place}" for place in range(KINDS)]
"""One of each kind, which everybody goes to."""


@pytest.fixture(scope="module")
def likes() -> list[tuple[str, str]]:
    """Everybody likes five things of their own kind, and the hits, whatever their kind."""
    generator = np.random.default_rng(3)
    rows = []
    for user in range(USERS):
        own = [item for item, kind in KIND_OF.items() if kind == user % KINDS and item not in HITS]
        rows += [(f"u{user}", item) for item in [*generator.choice(own, 5, replace=False).tolist(), *HITS]]
    return rows


@pytest.fixture(scope="module")
def model(likes: list[tuple[str, str]]) -> PreferenceModel:
    settings = PreferenceSettings(dimensions=16, epochs=40, validation=0.0, learning_rate=0.01, device="cpu")
    return PreferenceModel.fit(likes, settings=settings)


def test_conformity_follows_what_is_popular_and_interest_ones_own_kind(model: PreferenceModel) -> None:
    """Of two strange kinds, the hit draws by conformity. By interest, one's own kind goes before strange hits."""
    pull: dict[str, list[float]] = {"interest": [], "conformity": []}
    for number in range(USERS):
        strange_hits = [item for item in HITS if KIND_OF[item] != number % KINDS]
        own = [item for item, kind in KIND_OF.items() if kind == number % KINDS and item not in HITS]
        items = [*strange_hits, *own]
        scores = model.score_items([f"u{number}"] * len(items), items)
        for name in pull:
            values = getattr(scores, name)
            pull[name].append(float(np.mean(values[: len(strange_hits)]) - np.mean(values[len(strange_hits) :])))

    assert np.mean(pull["conformity"]) > np.mean(pull["interest"]) + 0.1
    assert np.mean(np.array(pull["conformity"]) > np.array(pull["interest"])) > 0.9


def test_a_newcomer_has_interest_and_conformity_of_those_with_such_a_profile(likes: list[tuple[str, str]]) -> None:
    hobbies = ("museums and art", "jazz and concerts", "hiking and mountains")
    profiles = {f"u{number}": {"hobby": hobbies[number % KINDS]} for number in range(USERS)}
    settings = PreferenceSettings(dimensions=16, epochs=40, validation=0.0, learning_rate=0.01, device="cpu")
    newcomers = {f"new {kind}": {"hobby": hobby} for kind, hobby in enumerate(hobbies)}
    model = PreferenceModel.fit(likes, profiles={**profiles, **newcomers}, settings=settings, encoder="hash:32")

    for kind, newcomer in enumerate(newcomers):
        alike = [
            model.score_items([f"u{number}"] * len(KIND_OF), list(KIND_OF)) for number in range(kind, USERS, KINDS)
        ]
        own = model.score_items([newcomer] * len(KIND_OF), list(KIND_OF))
        of_kind = {name: np.mean([getattr(one, name) for one in alike], axis=0) for name in ("interest", "conformity")}
        for name, other in (("interest", "conformity"), ("conformity", "interest")):
            likeness = {
                each: float(np.corrcoef(getattr(own, name), of_kind[each])[0, 1]) for each in ("interest", "conformity")
            }
            assert likeness[name] > 0.99
            assert likeness[name] > likeness[other]
