"""Fits a preference model: tables, profiles (stage 1), preferences (stage 2), and what to expect of newcomers.

The one rule: everything that was given is read and checked before any of it is trained on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from agentfw_rewardmodels.errors import BadInputError
from agentfw_rewardmodels.preference.checkpoints import Checkpoints, fingerprint
from agentfw_rewardmodels.preference.cold_start import believed, expected
from agentfw_rewardmodels.preference.dataset import Dataset, Pairs, read_pairs
from agentfw_rewardmodels.preference.encoders import Encoder, EncoderChoice, Float32Array, open_encoder
from agentfw_rewardmodels.preference.input_tables import read_interactions, read_items, read_profiles
from agentfw_rewardmodels.preference.model_state import State
from agentfw_rewardmodels.preference.preference_settings import PreferenceSettings
from agentfw_rewardmodels.preference.profile_merging import merged, train_profiles
from agentfw_rewardmodels.preference.scoring import stances
from agentfw_rewardmodels.preference.training import Progress, Trainer, device_of

__all__ = ["fit"]


def fit(
    interactions: Any,
    *,
    items: Any,
    profiles: Any,
    validation: Any,
    settings: PreferenceSettings,
    encoder: EncoderChoice,
    start: State | None,
    checkpoints: str | Path | None,
    progress: Callable[[Progress], None],
) -> tuple[State, Encoder | None]:
    """The trained state, and the encoder where texts were given."""
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

    begun = {} if start is None else _begun(start, data)
    trainer = Trainer(training, settings, begun)
    kept = None
    if checkpoints is not None:
        kept = Checkpoints(checkpoints, fingerprint(training, held_out, settings, list(begun.values())))
    trained = trainer.train(held_out, kept, progress)
    weights |= trained.weights
    own_users, own_items = weights.pop("users"), weights.pop("items")
    state = State(
        settings=settings,
        users=data.users,
        items=data.items,
        titles={item: texts[item] for item in data.items if item in texts},
        view_names=data.view_names,
        # What was held out to know when to stop is known all the same; a table of the caller's own is not taken in.
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
        state = _with_newcomers(state, rows)
    if kept is not None:
        kept.done()
    return state, opened


def _with_newcomers(state: State, profiles: Float32Array) -> State:
    """The same state, which knows what to expect of somebody who has a profile and no likes."""
    likes = state.with_likes()
    # Where nobody who likes anything has a profile, newcomers are expected to be like those who do like something.
    known = likes & (profiles != 0).any(-1) if (profiles[likes] != 0).any() else likes
    embeddings = state.embeddings()[0][known]
    of_known = stances(embeddings, state.weights, state.settings)
    of_newcomers = believed(profiles[known], np.hstack([embeddings, of_known.interest, of_known.conformity]))
    weights = {**state.weights, **of_newcomers}
    by_profile = expected(profiles, weights).reshape(-1, 3, state.settings.dimensions)
    # Who has likes stays where training put them, profile included; of the others nothing was trained.
    own_users = np.where(likes[:, None], state.own_users - by_profile[:, 0], np.float32(0.0))
    return replace(state, own_users=own_users, by_profile=by_profile, weights=weights)


def _split(data: Dataset, validation: Any, settings: PreferenceSettings) -> tuple[Dataset, Pairs]:
    if validation is not None:
        held_out = read_pairs(validation, data.users, data.items, "validation")
        if not held_out.size:
            raise BadInputError(
                "no like of the validation table is of a known user and item", fix="give one that shares their names"
            )
        return data, held_out
    if not settings.validation:
        return data, np.zeros((2, 0), np.int64)
    return data.without(settings.validation, np.random.default_rng([settings.seed, 0]))


def _begun(start: State, data: Dataset) -> dict[str, Float32Array]:
    """The weights of an earlier model, its rows put where this dataset has those users and items."""
    generator = np.random.default_rng(start.settings.seed)
    begun = dict(start.weights)
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
        begun[name] = placed
    return begun
