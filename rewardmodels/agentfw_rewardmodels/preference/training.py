"""Stage 2 of training: the embeddings of users and items, the branches, and the positions of texts.

On one machine and number of threads, the same seed gives the same model, also if training was interrupted and resumed
from a checkpoint. Torch's global random state is neither used nor changed. A batch is some likes, and for each one an
item that the user doesn't like. What an epoch draws depends only on the seed and the number of the epoch. A checkpoint
carries a fingerprint of the data and the settings, and any other training refuses it.

The held-out likes are evaluated every `look_every` epochs, and the best weights are kept. Training stops after
`patience` evaluations without improvement.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInputError, FileRefusedError, MissingExtraError
from .encoders import Float32Array
from .formulas import Batch, Embeddings, branches_of, fused_of, normalised, objective
from .input_tables import Dataset, Pairs, popularity
from .model_state import read_arrays, write_arrays
from .preference_settings import PreferenceSettings
from .propagation import Adjacency, Matrix, propagate, propagated
from .results import by_user, recall_and_ndcg, top

Ints = NDArray[np.int64]
TRIES = 10
"""Attempts to draw an item that isn't liked. A user who likes nearly everything may get one that is."""


@dataclass(frozen=True, slots=True)
class Places:
    """A batch as indexes of users and items. `user` and `item` index the distinct `users` and `items`."""

    users: Ints
    items: Ints
    others: Ints
    user: Ints
    item: Ints
    compared: Ints
    """Indexes in `users`, sorted: the users whose contrastive losses are computed."""
    liked: NDArray[np.bool_]
    """Shape (compared, items): what each of these users is known to like."""


class Drawer:
    """Draws batches from the likes of a dataset."""

    def __init__(self, likes: Pairs, users: int, items: int, batch: int, contrast_users: int, seed: int) -> None:
        self._likes, self._items, self._batch, self._seed = likes, items, batch, seed
        self._contrast_users = contrast_users
        self._keys = np.sort(likes[0] * items + likes[1])
        self._starts = np.searchsorted(self._keys, np.arange(users + 1) * items)
        self._slots = np.full(items, -1, np.int64)

    def epoch(self, number: int) -> Iterator[Places]:
        generator = np.random.default_rng([self._seed, number])
        likes = self._likes[:, generator.permutation(self._likes.shape[1])]
        others = self._others(likes[0], generator)
        for begin in range(0, likes.shape[1], self._batch):
            part = slice(begin, begin + self._batch)
            yield self.places(likes[:, part], others[part], generator)

    def generator(self, epoch: int) -> np.random.Generator:
        """Return the generator for other random choices in an epoch."""
        return np.random.default_rng([self._seed, epoch, 1])

    def places(self, likes: Pairs, others: Ints, generator: np.random.Generator) -> Places:
        users, user = np.unique(likes[0], return_inverse=True)
        items, item = np.unique(likes[1], return_inverse=True)
        compared = np.arange(len(users))
        if 0 < self._contrast_users < len(users):
            compared = np.sort(generator.choice(len(users), self._contrast_users, replace=False, shuffle=False))
        return Places(users, items, others, user, item, compared, self._liked(users[compared], items))

    def _liked(self, users: Ints, items: Ints) -> NDArray[np.bool_]:
        counts = self._starts[users + 1] - self._starts[users]
        rows = np.repeat(np.arange(len(users)), counts)
        edges = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + self._starts[users][rows]
        self._slots[items] = np.arange(len(items))
        slots = self._slots[self._keys[edges] % self._items]
        self._slots[items] = -1
        mask = np.zeros((len(users), len(items)), bool)
        mask[rows[slots >= 0], slots[slots >= 0]] = True
        return mask

    def _others(self, users: Ints, generator: np.random.Generator) -> Ints:
        others = generator.integers(0, self._items, len(users))
        for _ in range(TRIES):
            keys = users * self._items + others
            found = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            wrong = np.flatnonzero(self._keys[found] == keys)
            if not len(wrong):
                break
            others[wrong] = generator.integers(0, self._items, len(wrong))
        return others


def tensor(array: Any, device: str) -> Any:
    import torch

    return torch.from_numpy(array).to(device)


NAME = "training.safetensors"


class Checkpoints:
    """One file in a folder, replaced after each epoch."""

    def __init__(self, folder: str | Path, fingerprint: str) -> None:
        self._path, self._fingerprint = Path(folder) / NAME, fingerprint

    def write(self, arrays: dict[str, Float32Array], facts: dict[str, Any]) -> None:
        write_arrays(self._path, arrays, {"fingerprint": self._fingerprint, "facts": json.dumps(facts)})

    def read(self) -> tuple[dict[str, Float32Array], dict[str, Any]] | None:
        """Return what was written last, or None."""
        if not self._path.exists():
            return None
        arrays, metadata = read_arrays(self._path)
        if metadata.get("fingerprint") != self._fingerprint:
            raise FileRefusedError(
                f"{self._path} is the checkpoint of another training: the data, settings or encoder differ",
                fix="choose another folder, or delete that file to start over",
            )
        facts: dict[str, Any] = json.loads(metadata["facts"])
        return arrays, facts

    def done(self) -> None:
        """Delete the checkpoint, because the training has finished."""
        self._path.unlink(missing_ok=True)


def fingerprint(data: Dataset, validation: Pairs, settings: PreferenceSettings, start: Sequence[Float32Array]) -> str:
    """Return a hash of a training. It is the same on every machine."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([data.users, data.items, data.view_names, settings.as_dict()]).encode())
    for array in (data.likes, validation, data.texts, data.views, *start):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


INITIAL_DEVIATION = 0.1
"""Standard deviation of the initial embeddings."""
VALIDATION_LENGTH = 20
"""Length of the list whose NDCG decides on early stopping."""
USERS_AT_ONCE = 512


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


@dataclass(slots=True)
class Trained:
    """The result of training."""

    weights: dict[str, Float32Array]
    history: list[dict[str, float]] = field(default_factory=list)


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

        self.data, self.settings, self.device = data, settings, device_of(settings)
        self.users, self.items = len(data.users), len(data.items)
        self.graph = Adjacency.of(data.likes, self.users, self.items)
        self._matrix = None if settings.neighbours else Matrix(self.graph, self.device)
        self.drawer = Drawer(data.likes, self.users, self.items, settings.batch, settings.contrast_users, settings.seed)
        self._popularity = tensor(popularity(data.likes, self.items, settings.popularity), self.device)
        self._texts = tensor(data.texts, self.device) if data.texts.size else None
        generator = torch.Generator().manual_seed(settings.seed)
        shapes = shapes_of(self.users, self.items, settings.dimensions, data.texts.shape[1])
        self.weights = {
            name: self._initial(name, shape, start, generator).to(self.device).requires_grad_()
            for name, shape in shapes.items()
        }
        self._optimizer = torch.optim.Adam(list(self.weights.values()), lr=settings.learning_rate, fused=True)

    @staticmethod
    def _initial(name: str, shape: tuple[int, ...], start: dict[str, Float32Array], generator: Any) -> Any:
        import torch

        if name in start and start[name].shape == shape:
            return torch.from_numpy(start[name].copy())
        if name in ("users", "items"):
            return torch.randn(shape, generator=generator) * INITIAL_DEVIATION
        if name.endswith("bias"):
            return torch.zeros(shape)
        return (torch.rand(shape, generator=generator) * 2 - 1) / shape[-1] ** 0.5

    def step(self, places: Places, generator: np.random.Generator) -> float:
        """Do one optimizer step, and return the loss before it."""
        loss = self.loss(places, generator)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        return float(loss.item())

    def loss(self, places: Places, generator: np.random.Generator) -> Any:
        import torch

        groups = places.users, places.items + self.users, places.others + self.users
        if self._matrix is None:
            nodes, part = self.graph.around(
                np.concatenate(groups), self.settings.layers, self.settings.neighbours, generator
            )
            before = self._before()[tensor(nodes, self.device)]
            after = propagate(before, Matrix(part, self.device, symmetric=False), self.settings.layers)
            groups = tuple(np.searchsorted(nodes, group) for group in groups)  # type: ignore[assignment]
        else:
            before = self._before()
            after = propagate(before, self._matrix, self.settings.layers)
        user_rows, item_rows, other_rows = (tensor(group, self.device) for group in groups)
        items, others = tensor(places.items, self.device), tensor(places.others, self.device)
        batch = Batch(
            users=user_rows,
            items=item_rows,
            others=other_rows,
            user=tensor(places.user, self.device),
            item=tensor(places.item, self.device),
            compared=tensor(places.compared, self.device),
            liked=tensor(places.liked, self.device),
            popularity=self._popularity[items],
            texts=None if self._texts is None else self._texts[items],
            other_texts=None if self._texts is None else self._texts[others],
        )
        rows = torch.cat([user_rows, item_rows, other_rows])
        sizes = [len(user_rows), len(item_rows), len(other_rows)]
        users, liked, unliked = after.index_select(0, rows).split(sizes)
        embeddings = Embeddings(users, liked, unliked, before.index_select(0, rows).split(sizes))
        return objective(batch, embeddings, self.weights, self.settings)

    def _before(self) -> Any:
        """Return the embeddings before the propagation."""
        import torch

        return torch.cat([self.weights["users"], self.weights["items"]])

    def train(self, validation: Pairs, checkpoints: Checkpoints | None, report: Callable[[Progress], None]) -> Trained:
        """Train until the last epoch or early stopping."""
        settings = self.settings
        state = _State(best=self._copied())
        if checkpoints is not None:
            state = self._resumed(checkpoints, state)
        while state.epoch < settings.epochs and state.without_improvement < settings.patience:
            state.epoch += 1
            generator = self.drawer.generator(state.epoch)
            steps = [self.step(places, generator) for places in self.drawer.epoch(state.epoch)]
            loss, metric = float(np.mean(steps)), None
            if not np.isfinite(loss):
                raise BadInputError(
                    f"training diverged in epoch {state.epoch}: the loss is {loss}", fix="lower learning_rate"
                )
            if validation.size and (state.epoch % settings.look_every == 0 or state.epoch == settings.epochs):
                metric = self.validate(validation)
                state.without_improvement += 1
                if metric > state.metric:
                    state.metric, state.best, state.without_improvement = metric, self._copied(), 0
            state.history.append({"epoch": state.epoch, "loss": loss, **({} if metric is None else {"metric": metric})})
            if checkpoints is not None:
                arrays = {f"now.{name}": array for name, array in self._copied().items()}
                arrays |= {f"best.{name}": array for name, array in state.best.items()}
                for name, value in self.weights.items():
                    memory = self._optimizer.state[value]
                    arrays |= {f"{key}.{name}": memory[key].cpu().numpy() for key in ("exp_avg", "exp_avg_sq", "step")}
                facts = {"epoch": state.epoch, "metric": state.metric, "without_better": state.without_improvement}
                checkpoints.write(arrays, {**facts, "history": state.history})
            report(Progress("preferences", state.epoch, settings.epochs, loss, metric))
        return Trained(state.best if validation.size else self._copied(), state.history)

    def validate(self, validation: Pairs) -> float:
        """Return the NDCG of the held-out likes, by the score that the model ranks by."""
        import torch

        users, relevant = by_user(validation)
        values = []
        with torch.no_grad():
            embeddings = self._propagated()
            items = embeddings[self.users :]
            for begin in range(0, len(users), USERS_AT_ONCE):
                some = users[begin : begin + USERS_AT_ONCE]
                branches = branches_of(embeddings[tensor(some, self.device)], self.weights, self.settings)
                by = self.settings.rank_by
                scores = (
                    (fused_of(branches, self.weights) @ items.T)
                    if by == "fused"
                    else branches[by] @ normalised(items).T
                )
                scores = scores.cpu().numpy()
                for row, user in enumerate(some):
                    scores[row, self.graph.neighbours(user) - self.users] = -np.inf
                values.append(
                    recall_and_ndcg(top(scores, VALIDATION_LENGTH), relevant[begin : begin + USERS_AT_ONCE])[1]
                )
        return float(np.concatenate(values).mean())

    def _propagated(self) -> Any:
        if self._matrix is not None:
            return propagate(self._before(), self._matrix, self.settings.layers)
        return tensor(propagated(self._before().cpu().numpy(), self.graph, self.settings.layers), self.device)

    def _copied(self) -> dict[str, Float32Array]:
        return {name: value.detach().cpu().numpy().copy() for name, value in self.weights.items()}

    def _resumed(self, checkpoints: Checkpoints, fresh: _State) -> _State:
        import torch

        found = checkpoints.read()
        if found is None:
            return fresh
        arrays, facts = found
        with torch.no_grad():
            for name, value in self.weights.items():
                value.copy_(tensor(arrays[f"now.{name}"], self.device))
                self._optimizer.state[value] = {
                    key: tensor(arrays[f"{key}.{name}"], "cpu" if key == "step" else self.device)
                    for key in ("exp_avg", "exp_avg_sq", "step")
                }
        best = {name: arrays[f"best.{name}"] for name in self.weights}
        return _State(best, facts["epoch"], facts["metric"], facts["without_better"], facts["history"])


@dataclass(slots=True)
class _State:
    best: dict[str, Float32Array]
    epoch: int = 0
    metric: float = -1.0
    without_improvement: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


def shapes_of(users: int, items: int, dimensions: int, text: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all weights of stage 2, in the order in which they are initialised."""
    shapes: dict[str, tuple[int, ...]] = {"users": (users, dimensions), "items": (items, dimensions)}
    for name in ("interest", "conformity"):
        shapes[f"{name}.first.weight"], shapes[f"{name}.first.bias"] = (dimensions, dimensions), (dimensions,)
        shapes[f"{name}.second.weight"], shapes[f"{name}.second.bias"] = (dimensions, dimensions), (dimensions,)
    shapes["gate.weight"], shapes["gate.bias"] = (dimensions, dimensions), (dimensions,)
    shapes["gate.asks"] = (dimensions,)
    if text:
        shapes["action.weight"], shapes["action.bias"] = (dimensions, text), (dimensions,)
    return shapes
