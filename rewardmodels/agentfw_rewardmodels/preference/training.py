"""Fits a preference model: trains profiles (stage 1) and preferences (stage 2), then fits the cold start.

Stage 1 and the cold start are in cold_start.py. Stage 2 is here: the embeddings of users and items, the branches, and
the positions of texts. A batch is some likes, and for each one an item that the user doesn't like. On one machine and
number of threads, the same seed gives the same model. Torch's global random state is neither used nor changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInputError, MissingExtraError
from .cold_start import fit_cold_start, merged, predict_from_profiles, train_profiles, uniform
from .encoders import Float32Array
from .formulas import Adjacency, Batch, matrix_of, normalised, objective, propagate, user_vectors
from .input_tables import Dataset, Pairs, popularity, read_pairs
from .model_state import ModelState
from .preference_settings import PreferenceSettings
from .scoring import found_likes

Ints = NDArray[np.int64]
TRIES = 10  # attempts to draw an item that isn't liked; a user who likes nearly everything may get one that is


def tensor(array: Any, device: str) -> Any:
    import torch

    return torch.from_numpy(array).to(device)


INITIAL_DEVIATION = 0.1  # standard deviation of the initial embeddings
VALIDATION_LENGTH = 20  # length of the list whose NDCG decides on early stopping


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a training."""

    stage: str
    """`profiles` or `preferences`."""
    epoch: int
    epochs: int
    loss: float
    metric: float | None = None
    """NDCG on the held-out likes, in epochs with a validation."""


def device_of(settings: PreferenceSettings) -> str:
    try:
        import torch
    except ImportError:
        raise MissingExtraError("training a preference model", "rewardmodels", module="torch") from None
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise BadInputError("no CUDA device was found", fix='set device to "cpu" or "auto"')
    return "cuda" if settings.device != "cpu" and torch.cuda.is_available() else "cpu"


class Trainer:
    """Trains on one dataset, optionally from the weights of an earlier model."""

    def __init__(self, data: Dataset, settings: PreferenceSettings, start: dict[str, Float32Array]) -> None:
        import torch

        self.settings, self.device = settings, device_of(settings)
        self.users, self.items = len(data.users), len(data.items)
        self.graph = Adjacency.of(data.likes, self.users, self.items)
        self._matrix = matrix_of(self.graph, self.device)
        self._likes = data.likes
        self._keys = np.sort(data.likes[0] * self.items + data.likes[1])
        self._starts = np.searchsorted(self._keys, np.arange(self.users + 1) * self.items)
        self._popularity = tensor(popularity(data.likes, self.items, settings.popularity), self.device)
        self._texts = tensor(data.texts, self.device) if data.texts.size else None
        generator = torch.Generator().manual_seed(settings.seed)
        self.weights: dict[str, Any] = {}
        for name, shape in shapes_of(self.users, self.items, settings.dimensions, data.texts.shape[1]).items():
            if name in start and start[name].shape == shape:
                initial = torch.from_numpy(start[name].copy())
            elif name in ("users", "items"):
                initial = torch.randn(shape, generator=generator) * INITIAL_DEVIATION
            else:
                initial = torch.zeros(shape) if name.endswith("bias") else uniform(shape, shape[-1], generator)
            self.weights[name] = initial.to(self.device).requires_grad_()
        self._optimizer = torch.optim.Adam(list(self.weights.values()), lr=settings.learning_rate, fused=True)

    def drawn(self, epoch: int) -> Iterator[Batch]:
        """Draw the batches of an epoch from the likes."""
        settings = self.settings
        moved = partial(tensor, device=self.device)
        generator = np.random.default_rng([settings.seed, epoch])
        likes = self._likes[:, generator.permutation(self._likes.shape[1])]
        unliked = self._unliked(likes, generator)
        for begin in range(0, likes.shape[1], settings.batch):
            part = slice(begin, begin + settings.batch)
            users, user = np.unique(likes[0, part], return_inverse=True)
            items, item = np.unique(likes[1, part], return_inverse=True)
            compared = np.arange(len(users))
            if 0 < settings.contrast_users < len(users):
                compared = np.sort(generator.choice(len(users), settings.contrast_users, replace=False, shuffle=False))
            some, others = moved(items), moved(unliked[part])
            yield Batch(
                users=moved(users),
                items=some + self.users,
                others=others + self.users,
                user=moved(user),
                item=moved(item),
                compared=moved(compared),
                liked=moved(self._liked(users[compared], items)),
                popularity=self._popularity[some],
                texts=None if self._texts is None else self._texts[some],
                other_texts=None if self._texts is None else self._texts[others],
            )

    def _unliked(self, likes: Ints, generator: np.random.Generator) -> Ints:
        """Draw for each like an item that its user doesn't like, unless they like nearly all."""
        unliked = generator.integers(0, self.items, len(likes[0]))
        for _ in range(TRIES):
            keys = likes[0] * self.items + unliked
            found = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            wrong = np.flatnonzero(self._keys[found] == keys)
            if not len(wrong):
                break
            unliked[wrong] = generator.integers(0, self.items, len(wrong))
        return unliked

    def _liked(self, users: Ints, items: Ints) -> NDArray[np.bool_]:
        """Return which of these items each of these users likes."""
        slots = np.full(self.items, -1, np.int64)
        slots[items] = np.arange(len(items))
        first, after = self._starts[users], self._starts[users + 1]
        counts = after - first
        rows = np.repeat(np.arange(len(users)), counts)
        edges = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + first[rows]
        places = slots[self._keys[edges] % self.items]
        liked = np.zeros((len(users), len(items)), bool)
        liked[rows[places >= 0], places[places >= 0]] = True
        return liked

    def loss(self, batch: Batch) -> Any:
        import torch

        before = torch.cat([self.weights["users"], self.weights["items"]])
        after = propagate(before, self._matrix, self.settings.layers)
        groups = [batch.users, batch.items, batch.others]
        rows, sizes = torch.cat(groups), list(map(len, groups))
        earlier, later = (each.index_select(0, rows).split(sizes) for each in (before, after))
        return objective(batch, earlier, later, self.weights, self.settings)

    def train(
        self, validation: Pairs, report: Callable[[Progress], None]
    ) -> tuple[dict[str, Float32Array], list[dict[str, float]]]:
        """Train until the last epoch or early stopping. Return the weights and the history."""
        settings, history = self.settings, list[dict[str, float]]()
        best, highest, without_improvement = self._copied(), -1.0, 0
        for epoch in range(1, settings.epochs + 1):
            losses, metric = list[float](), None
            for batch in self.drawn(epoch):
                loss_of_batch = self.loss(batch)
                self._optimizer.zero_grad()
                loss_of_batch.backward()
                self._optimizer.step()
                losses.append(float(loss_of_batch.item()))
            loss = float(np.mean(losses))
            if not np.isfinite(loss):
                what = f"training diverged in epoch {epoch}: the loss is {loss}"
                raise BadInputError(what, fix="lower learning_rate")
            if validation.size and (epoch % settings.look_every == 0 or epoch == settings.epochs):
                metric = self.validate(validation)
                without_improvement += 1
                if metric > highest:
                    highest, best, without_improvement = metric, self._copied(), 0
            history.append({"epoch": epoch, "loss": loss, **({} if metric is None else {"metric": metric})})
            report(Progress("preferences", epoch, settings.epochs, loss, metric))
            if without_improvement >= settings.patience:
                break
        return best if validation.size else self._copied(), history

    def validate(self, validation: Pairs) -> float:
        """Return the NDCG of the held-out likes, by the score that the model ranks by."""
        import torch

        with torch.no_grad():
            before = torch.cat([self.weights["users"], self.weights["items"]])
            embeddings = propagate(before, self._matrix, self.settings.layers)
            items = embeddings[self.users :]
            unit = normalised(items)

            def scores_of(some: Ints) -> Any:
                users = user_vectors(embeddings[tensor(some, self.device)], self.weights, self.settings)
                return users.scores(items, unit, self.settings.rank_by).cpu().numpy()

            known = self.graph.neighbours
            _, ndcg = found_likes(validation, VALIDATION_LENGTH, scores_of, lambda user: known(user) - self.users)
        return float(ndcg.mean())

    def _copied(self) -> dict[str, Float32Array]:
        return {name: value.detach().cpu().numpy().copy() for name, value in self.weights.items()}


def shapes_of(users: int, items: int, dimensions: int, text: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all weights of stage 2, in the order in which they are initialised."""
    shapes: dict[str, tuple[int, ...]] = {"users": (users, dimensions), "items": (items, dimensions)}
    for name in ("interest.first", "interest.second", "conformity.first", "conformity.second", "gate"):
        shapes |= {f"{name}.weight": (dimensions, dimensions), f"{name}.bias": (dimensions,)}
    shapes["gate.asks"] = (dimensions,)
    return shapes | ({"action.weight": (dimensions, text), "action.bias": (dimensions,)} if text else {})


def fit(
    data: Dataset,
    texts: Mapping[str, str],
    validation: Any,
    settings: PreferenceSettings,
    start: ModelState | None,
    progress: Callable[[Progress], None],
) -> ModelState:
    """Return the trained state. `validation` is a table, or None for a share of the data."""
    training, held_out = _split(data, validation, settings)
    device = device_of(settings)

    def report(epoch: int, loss: float) -> None:
        progress(Progress("profiles", epoch, settings.profile_epochs, loss))

    weights = train_profiles(data.views, settings, device, report) if data.view_names else {}
    initial = {} if start is None else _of_earlier(start, data)
    trained, history = Trainer(training, settings, initial).train(held_out, progress)
    weights |= trained
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
        history=tuple(history),
    )
    return _with_cold_start(state, merged(data.views, weights)) if data.view_names else state


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
            wrong = "no like in the validation table is of a known user and item"
            raise BadInputError(wrong, fix="use the same names of users and items")
        return data, held_out
    if not settings.validation:
        return data, np.zeros((2, 0), np.int64)
    return data.without(settings.validation, np.random.default_rng([settings.seed, 0]))


def _of_earlier(start: ModelState, data: Dataset) -> dict[str, Float32Array]:
    """Return the weights of an earlier model, with its rows moved to where this dataset has those users and items."""
    generator = np.random.default_rng(start.settings.seed)
    initial = dict(start.weights)
    for name, rows, old, new in (
        ("users", start.own_users + start.by_profile[:, 0], start.users, data.users),
        ("items", start.own_items, start.items, data.items),
    ):
        initial[name] = generator.normal(0.0, INITIAL_DEVIATION, (len(new), rows.shape[1])).astype(np.float32)
        places = {key: place for place, key in enumerate(new)}
        for row, key in zip(rows, old, strict=True):
            if key in places:
                initial[name][places[key]] = row
    return initial
