"""The objective of the preference model, where a term does something that is ours and not a published formula's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentfw_rewardmodels import PreferenceSettings
from agentfw_rewardmodels.preference.losses import Batch, Embeddings, objective
from agentfw_rewardmodels.preference.training import shapes_of

torch = pytest.importorskip("torch")

ONLY_PROFILES = PreferenceSettings(
    ranking_loss=0.0,
    interest_loss=0.0,
    conformity_loss=0.0,
    orthogonality_loss=0.0,
    user_loss=0.0,
    decay=0.0,
    profile_loss=1.0,
)


def profile_loss(users: Sequence[int], likes: Sequence[int]) -> float:
    """Of these users, who look alike and lie at one place, and have so many likes; of each one like is in the batch,
    and what it is compared with differs."""
    generator = torch.Generator().manual_seed(3)
    weights = {name: torch.randn(shape, generator=generator) / 3 for name, shape in shapes_of(2, 4, 8, 0, 5).items()}
    place, look = torch.randn(1, 8, generator=generator), torch.randn(1, 5, generator=generator)
    items, others = torch.randn(2, 8, generator=generator), torch.randn(2, 8, generator=generator)
    rows, count = torch.tensor(users), len(users)
    batch = Batch(
        users=torch.arange(count),
        items=torch.arange(count),
        others=torch.arange(count),
        user=torch.arange(count),
        item=torch.arange(count),
        liked=torch.eye(count, dtype=torch.bool),
        popularity=torch.zeros(count),
        texts=None,
        other_texts=None,
        profiles=look.expand(count, -1),
        activity=torch.tensor([float(likes[user]) for user in users]),
    )
    there = place.expand(count, -1)
    embeddings = Embeddings(there, items[rows], others[rows], (there, items[rows], others[rows]))
    return float(objective(batch, embeddings, weights, ONLY_PROFILES))


def test_few_busy_people_do_not_decide_what_everybody_who_comes_is_offered() -> None:
    """A like counts by one over the root of how many its user has: of 1 and of 100 likes that is 10 to 1."""
    quiet, busy = profile_loss([0], [1, 100]), profile_loss([1], [1, 100])
    assert abs(quiet - busy) > 0.1
    assert profile_loss([0, 1], [1, 100]) == pytest.approx((10 * quiet + busy) / 11, rel=1e-5)
    assert profile_loss([0, 1], [7, 7]) == pytest.approx((quiet + busy) / 2, rel=1e-5)
