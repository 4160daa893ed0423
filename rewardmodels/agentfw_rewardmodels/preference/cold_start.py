"""Users who have a profile but no likes: how the views of a profile become one vector, and what that says of taste.

Stage 1 of training learns to merge the views (formulas 18 to 24): two samples of one user with some views dropped
become more similar than those of two users, and the merged vector still reflects each view.

The vectors of such a user are predicted from those of known users with similar profiles, by ridge regression in closed
form, regularised by generalised cross-validation. If profiles say nothing, the prediction is the mean of all users.

    >>> profiles = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> known = np.array([[2.0], [2.2], [0.1], [-0.1]])
    >>> predict_from_profiles(profiles[:1], fit_cold_start(profiles, known)).round(1)
    array([[2.1]], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .encoders import Float32Array
from .formulas import Weights, attention, linear, mlp, normalised
from .preference_settings import PreferenceSettings

BATCH = 512
HIDDEN = 64
LEARNING_RATE = 1e-3


def merged(views: Float32Array, weights: Weights) -> Float32Array:
    """Return one row per user. Users without a profile have zeros."""
    present = np.asarray((views != 0).any(-1), np.float32)
    return np.asarray(attention(views, present, weights) * present.any(-1, keepdims=True), np.float32)


def train_profiles(
    views: Float32Array, settings: PreferenceSettings, device: str, report: Callable[[int, float], None]
) -> dict[str, Any]:
    """Return the weights of `attention` as numpy arrays. `report` is called with each epoch and its loss."""
    import torch

    present = np.asarray((views != 0).any(-1), np.float32)
    known = np.flatnonzero(present.any(-1))
    count, dimensions = views.shape[1:]
    generator = torch.Generator().manual_seed(settings.seed)
    weights = {
        "views.weight": uniform((dimensions, dimensions), dimensions, generator),
        "views.bias": torch.zeros(dimensions),
        "views.asks": uniform((dimensions,), dimensions, generator),
    }
    if count == 1 or len(known) < 2:
        return {name: value.numpy() for name, value in weights.items()}
    for view in range(count):
        for layer, (outside, inside) in {"first": (HIDDEN, dimensions), "second": (dimensions, HIDDEN)}.items():
            weights[f"{view}.{layer}.weight"] = uniform((outside, inside), inside, generator)
            weights[f"{view}.{layer}.bias"] = torch.zeros(outside)
    weights = {name: value.to(device).requires_grad_() for name, value in weights.items()}
    optimizer = torch.optim.Adam(list(weights.values()), lr=LEARNING_RATE)
    rows, marks = torch.from_numpy(views[known]), torch.from_numpy(present[known])
    for epoch in range(settings.profile_epochs):
        total = 0.0
        for batch in torch.randperm(len(known), generator=generator).split(BATCH):
            loss = _loss(rows[batch].to(device), marks[batch], weights, settings, generator, device)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        report(epoch + 1, total / len(known))
    return {name: weights[name].detach().cpu().numpy() for name in ("views.weight", "views.bias", "views.asks")}


def _loss(views: Any, present: Any, weights: Any, settings: PreferenceSettings, generator: Any, device: str) -> Any:
    import torch

    samples = []
    for _ in range(2):
        dropped = present * (torch.rand(present.shape, generator=generator) >= settings.view_dropout)
        # A user whose views were all dropped keeps them all.
        dropped = torch.where(dropped.any(1, keepdim=True), dropped, present).to(device)
        samples.append(normalised(attention(views, dropped, weights)))
    alike = samples[0] @ samples[1].T / settings.profile_temperature
    loss = torch.nn.functional.cross_entropy(alike, torch.arange(len(views), device=device))
    if settings.reconstruction_loss:
        whole = attention(views, present.to(device), weights)
        rebuilt = torch.stack([mlp(whole, weights, str(view)) for view in range(views.shape[1])], 1)
        error = ((rebuilt - views) ** 2).sum(-1) * present.to(device)
        loss = loss + settings.reconstruction_loss * error.sum() / present.sum()
    return loss


def uniform(shape: tuple[int, ...], inside: int, generator: Any) -> Any:
    """Return initial weights of a layer with so many inputs."""
    import torch

    return (torch.rand(shape, generator=generator) * 2 - 1) / inside**0.5


STRENGTHS = 10.0 ** np.arange(-3, 6.01, 0.25)
"""Regularisation strengths to choose from, relative to the size of an average profile."""


def predict_from_profiles(profiles: Float32Array, weights: Weights) -> Float32Array:
    """Return one row per merged profile. Missing profiles give zeros."""
    rows = np.where((profiles != 0).any(-1, keepdims=True), linear(profiles, weights, "profile"), 0.0)
    return np.asarray(rows, np.float32)


def fit_cold_start(profiles: Float32Array, known: Float32Array) -> dict[str, Float32Array]:
    """Return the weights of `predict_from_profiles`, from merged profiles and the vectors of the same users."""
    centre, middle = profiles.mean(0, dtype=np.float64), known.mean(0, dtype=np.float64)
    apart, moved = profiles - centre, known - middle
    sizes, directions = np.linalg.eigh(apart.T @ apart)
    sizes, along = sizes.clip(min=0.0), directions.T @ (apart.T @ moved)
    unit = sizes.sum() / len(profiles)
    best, weight = np.inf, np.zeros((known.shape[1], profiles.shape[1]))
    for strength in STRENGTHS * unit if unit > 0 else ():
        shares = 1.0 / (sizes + strength)
        # The residual sum of squares, without going through the users again.
        left = (moved**2).sum() - ((2.0 - sizes * shares) * shares * (along**2).sum(1)).sum()
        free = len(profiles) - 1 - (sizes * shares).sum()
        if free > 0 and left / free**2 < best:
            best, weight = left / free**2, along.T * shares @ directions.T
    return {"profile.weight": weight.astype(np.float32), "profile.bias": (middle - weight @ centre).astype(np.float32)}
