"""The contrastive losses are computed for some of a batch's users, and stand for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentfw_rewardmodels import PreferenceSettings
from agentfw_rewardmodels.preference.input_tables import Dataset, read_interactions
from agentfw_rewardmodels.preference.training import Places, Trainer

torch = pytest.importorskip("torch")

USERS, ITEMS, COMPARED, DRAWS = 40, 30, 8, 200


def trainer(contrast_users: int) -> Trainer:
    """A trainer whose objective consists of the contrastive losses. Users have between 1 and 20 likes."""
    generator = np.random.default_rng(3)
    likes = [
        (f"u{user}", f"i{item}")
        for user in range(USERS)
        for item in generator.choice(ITEMS, 1 + user // 2, replace=False).tolist()
    ]
    only_contrasts = PreferenceSettings(
        dimensions=8,
        ranking_loss=0.0,
        orthogonality_loss=0.0,
        decay=0.0,
        interest_loss=1.0,
        conformity_loss=1.0,
        user_loss=1.0,
        contrast_users=contrast_users,
        device="cpu",
    )
    return Trainer(Dataset.build(read_interactions(likes)), only_contrasts, {})


def loss_and_gradient(trainer: Trainer, places: Places) -> tuple[float, Any]:
    trainer._optimizer.zero_grad()
    loss = trainer.loss(places, np.random.default_rng(0))
    loss.backward()
    return loss.item(), torch.cat([trainer.weights[name].grad.flatten() for name in ("users", "items")]).numpy()


@pytest.mark.slow
def test_the_contrasts_of_some_users_are_on_average_those_of_all() -> None:
    every, some = trainer(contrast_users=0), trainer(contrast_users=COMPARED)
    whole = next(every.drawer.epoch(1))
    likes = np.stack([whole.users[whole.user], whole.items[whole.item]])
    loss, gradient = loss_and_gradient(every, whole)
    generator = np.random.default_rng(5)

    drawn = [some.drawer.places(likes, whole.others, generator) for _ in range(DRAWS)]
    found = [loss_and_gradient(some, places) for places in drawn]

    assert all(places.liked.shape == (COMPARED, len(whole.items)) for places in drawn)
    losses = np.array([one for one, _ in found])
    along = np.array([one @ gradient for _, one in found]) / (gradient @ gradient)
    for values, expected in ((losses, loss), (along, 1.0)):
        error = values.std(ddof=1) / DRAWS**0.5
        assert abs(values.mean() - expected) < 3 * error
        # The bound is tight enough to notice a bias.
        assert error < 0.05 * expected


def test_every_user_is_compared_if_there_are_few() -> None:
    drawer = trainer(contrast_users=USERS).drawer

    places = next(drawer.epoch(1))

    assert places.compared.tolist() == list(range(USERS))
