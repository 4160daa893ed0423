"""Fits a preference model: trains profiles (stage 1) and preferences (stage 2), then fits the cold start.

All input is read and checked before training starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from agentfw_rewardmodels.errors import BadInputError
from agentfw_rewardmodels.preference.cold_start import fit_cold_start, merged, predict_from_profiles, train_profiles
from agentfw_rewardmodels.preference.encoders import Encoder, EncoderChoice, Float32Array, open_encoder
from agentfw_rewardmodels.preference.input_tables import (
    Dataset,
    Pairs,
    hetero_texts,
    is_hetero_data,
    read_interactions,
    read_items,
    read_pairs,
    read_profiles,
)
from agentfw_rewardmodels.preference.model_state import ModelState
from agentfw_rewardmodels.preference.preference_settings import PreferenceSettings
from agentfw_rewardmodels.preference.scoring import user_vectors
from agentfw_rewardmodels.preference.training import Checkpoints, Progress, Trainer, device_of, fingerprint


def fit(
    interactions: Any,
    *,
    items: Any,
    profiles: Any,
    validation: Any,
    settings: PreferenceSettings,
    encoder: EncoderChoice,
    start: ModelState | None,
    checkpoints: str | Path | None,
    progress: Callable[[Progress], None],
) -> tuple[ModelState, Encoder | None]:
    """Return the trained state, and the encoder if there are texts."""
    if is_hetero_data(interactions):
        of_items, of_users = hetero_texts(interactions)
        items, profiles = of_items if items is None else items, of_users if profiles is None else profiles
    texts = {} if items is None else read_items(items)
    views = {} if profiles is None else read_profiles(profiles)
    opened = open_encoder(encoder) if texts or views else None
    data = Dataset.build(read_interactions(interactions), texts, views, opened)
    training, held_out = _split(data, validation, settings)
    device = device_of(settings)

    weights: dict[str, Any] = {}
    rows = np.zeros((len(data.users), 0), np.float32)
    if data.view_names:
        weights = train_profiles(
            data.views,
            settings,
            device,
            lambda epoch, loss: progress(Progress("profiles", epoch, settings.profile_epochs, loss)),
        )
        rows = merged(data.views, weights)

    initial = {} if start is None else _initial(start, data)
    trainer = Trainer(training, settings, initial)
    kept = None
    if checkpoints is not None:
        kept = Checkpoints(checkpoints, fingerprint(training, held_out, settings, list(initial.values())))
    trained = trainer.train(held_out, kept, progress)
    weights |= trained.weights
    own_users, own_items = weights.pop("users"), weights.pop("items")
    state = ModelState(
        settings=settings,
        users=data.users,
        items=data.items,
        titles={item: texts[item] for item in data.items if item in texts},
        view_names=data.view_names,
        # Likes held out here for validation are known to the model. A validation table of the caller is not.
        likes=data.likes if validation is None else training.likes,
        own_users=own_users,
        own_items=own_items,
        by_profile=np.zeros((len(own_users), 3, settings.dimensions), np.float32),
        texts=data.texts,
        weights=weights,
        facts=data.facts,
        history=tuple(trained.history),
    )
    if data.view_names:
        state = _with_cold_start(state, rows)
    if kept is not None:
        kept.done()
    return state, opened


def _with_cold_start(state: ModelState, profiles: Float32Array) -> ModelState:
    """Add the predictions for users who have a profile but no likes."""
    likes = state.with_likes()
    # If no user with likes has a profile, new users are predicted to be like the users with likes.
    known = likes & (profiles != 0).any(-1) if (profiles[likes] != 0).any() else likes
    embeddings = state.embeddings()[0][known]
    of_known = user_vectors(embeddings, state.weights, state.settings)
    of_new_users = fit_cold_start(profiles[known], np.hstack([embeddings, of_known.interest, of_known.conformity]))
    weights = {**state.weights, **of_new_users}
    by_profile = predict_from_profiles(profiles, weights).reshape(-1, 3, state.settings.dimensions)
    # Users with likes stay where training put them, profile included. The others were not trained.
    own_users = np.where(likes[:, None], state.own_users - by_profile[:, 0], np.float32(0.0))
    return replace(state, own_users=own_users, by_profile=by_profile, weights=weights)


def _split(data: Dataset, validation: Any, settings: PreferenceSettings) -> tuple[Dataset, Pairs]:
    if validation is not None:
        held_out = read_pairs(validation, data.users, data.items, "validation")
        if not held_out.size:
            raise BadInputError(
                "no like in the validation table is of a known user and item",
                fix="use the same names of users and items",
            )
        return data, held_out
    if not settings.validation:
        return data, np.zeros((2, 0), np.int64)
    return data.without(settings.validation, np.random.default_rng([settings.seed, 0]))


def _initial(start: ModelState, data: Dataset) -> dict[str, Float32Array]:
    """Return the weights of an earlier model, with its rows moved to where this dataset has those users and items."""
    generator = np.random.default_rng(start.settings.seed)
    initial = dict(start.weights)
    for name, rows, old, new in (
        ("users", start.own_users + start.by_profile[:, 0], start.users, data.users),
        ("items", start.own_items, start.items, data.items),
    ):
        placed = generator.normal(0.0, 0.1, (len(new), rows.shape[1])).astype(np.float32)
        places = {key: place for place, key in enumerate(new)}
        shared = [(place, places[key]) for place, key in enumerate(old) if key in places]
        if shared:
            before, now = map(list, zip(*shared, strict=True))
            placed[now] = rows[before]
        initial[name] = placed
    return initial
