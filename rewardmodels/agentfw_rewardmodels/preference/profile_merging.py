"""Stage 1 of training: learns to merge the views of a profile into one vector (formulas 18 to 24).

The text encoder is frozen. Only the weights of the views are learned, so that two samples of one user with some views
dropped are more similar than those of two users, and the merged vector still reflects each view. A profile with a
single view is that view's vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from agentfw_rewardmodels.preference.encoders import Float32Array
from agentfw_rewardmodels.preference.formulas import Weights, attention, mlp, normalised
from agentfw_rewardmodels.preference.preference_settings import PreferenceSettings

__all__ = ["merged", "present_views", "train_profiles"]

BATCH = 512
HIDDEN = 64
LEARNING_RATE = 1e-3


def present_views(views: Float32Array) -> Float32Array:
    """Return an array of shape (users, views) with 1 for each view that is present."""
    return np.asarray((views != 0).any(-1), np.float32)


def merged(views: Float32Array, weights: Weights) -> Float32Array:
    """Return one row per user. Users without a profile have zeros."""
    present = present_views(views)
    return np.asarray(attention(views, present, weights) * present.any(-1, keepdims=True), np.float32)


def train_profiles(
    views: Float32Array, settings: PreferenceSettings, device: str, report: Callable[[int, float], None]
) -> dict[str, Any]:
    """Return the weights of `attention` as numpy arrays. `report` is called with each epoch and its loss."""
    import torch

    known = np.flatnonzero(present_views(views).any(-1))
    count, dimensions = views.shape[1:]
    generator = torch.Generator().manual_seed(settings.seed)
    weights = {
        "views.weight": _initial((dimensions, dimensions), dimensions, generator),
        "views.bias": torch.zeros(dimensions),
        "views.asks": _initial((dimensions,), dimensions, generator),
    }
    if count == 1 or len(known) < 2:
        return {name: value.numpy() for name, value in weights.items()}
    for view in range(count):
        for layer, (outside, inside) in {"first": (HIDDEN, dimensions), "second": (dimensions, HIDDEN)}.items():
            weights[f"{view}.{layer}.weight"] = _initial((outside, inside), inside, generator)
            weights[f"{view}.{layer}.bias"] = torch.zeros(outside)
    weights = {name: value.to(device).requires_grad_() for name, value in weights.items()}
    optimizer = torch.optim.Adam(list(weights.values()), lr=LEARNING_RATE)
    rows, marks = torch.from_numpy(views[known]), torch.from_numpy(present_views(views)[known])
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


def _initial(shape: tuple[int, ...], inside: int, generator: Any) -> Any:
    import torch

    return (torch.rand(shape, generator=generator) * 2 - 1) / inside**0.5
