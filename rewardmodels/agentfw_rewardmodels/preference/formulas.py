"""The formulas that training and scoring share, for torch tensors and numpy arrays alike, and the objective of stage 2.

    >>> normalised(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])

Both use the same code, so that scoring can't drift away from training. Shapes are (rows, dimensions). Numbers in
docstrings are those of the formulas in appendix B.1 of the parpo-psgm paper. The branches (26) are written as a
correction of the user's embedding, x + MLP(x), so that they start as what LightGCN already knows.

The objective (42), term by term:

| term | formula | what it does |
| --- | --- | --- |
| ranking | 33 | ranks liked items above random items |
| interest | 28 | makes the branch find the liked items of the batch; unpopular ones count more |
| conformity | 30 | the same, with popular ones counting more |
| orthogonality | 34 | makes the two branches of a user orthogonal |
| user | 35, 36 | distinguishes the users of a batch |
| action | 38-41 | aligns an item's text with the item, and ranks by it |
| decay | 37 | keeps embeddings small |

A term with weight 0 isn't computed. Each term is a mean over the batch, so its weight means the same at every batch
size. In the contrastive terms each item of the batch occurs once, however many users liked it, and other items that a
user likes aren't negatives. They and the one between users are estimated, without bias, from the users that the batch
names as `compared`: comparing all users with all items is most of the work of a step.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .encoders import Float32Array
from .preference_settings import PreferenceSettings

Array = Any  # a torch tensor or a numpy array
Weights = Mapping[str, Array]
Rows = tuple[Array, Array, Array]  # embeddings of users, of liked items and of others


def tanh(x: Array) -> Array:
    return np.tanh(x) if isinstance(x, np.ndarray) else x.tanh()


def softmax(x: Array) -> Array:
    """Over the last axis."""
    if not isinstance(x, np.ndarray):
        return x.softmax(-1)
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def normalised(x: Array) -> Array:
    """Scale rows to unit length."""
    return x / (((x * x).sum(-1) + 1e-12) ** 0.5)[..., None]


def linear(x: Array, weights: Weights, name: str) -> Array:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def mlp(x: Array, weights: Weights, name: str) -> Array:
    return linear(linear(x, weights, f"{name}.first").clip(min=0.0), weights, f"{name}.second")


def branch(users: Array, weights: Weights, name: str) -> Array:
    """(26): return the vectors of users in a branch ("interest" or "conformity"), of unit length."""
    return normalised(users + mlp(users, weights, name))


def gate(interest: Array, conformity: Array, weights: Weights) -> Array:
    """(31): return the share of interest of each user. A softmax over two is a logistic function."""
    asked = [tanh(linear(rows, weights, "gate")) @ weights["gate.asks"] for rows in (interest, conformity)]
    return 0.5 * (1.0 + tanh(0.5 * (asked[0] - asked[1])))


def fused(interest: Array, conformity: Array, share: Array) -> Array:
    """(32): mix the two branches."""
    return share[..., None] * interest + (1.0 - share[..., None]) * conformity


@dataclass(frozen=True, slots=True)
class UserVectors:
    """The branches of some users as rows of unit length, what both together are, and their share of interest."""

    interest: Array
    conformity: Array
    fused: Array
    share: Array

    def of(self, rows: Any) -> UserVectors:
        return UserVectors(self.interest[rows], self.conformity[rows], self.fused[rows], self.share[rows])

    def replaced(self, rows: Any, others: UserVectors) -> UserVectors:
        """Return a copy with these rows replaced by others."""
        copies = {each.name: getattr(self, each.name).copy() for each in fields(self)}
        for name, part in copies.items():
            part[rows] = getattr(others, name)
        return UserVectors(**copies)

    def scores(self, items: Array, unit: Array, by: str) -> Array:
        """What items are ranked by for each of these users. `unit` are the items with unit length."""
        return self.fused @ items.T if by == "fused" else getattr(self, by) @ unit.T


def user_vectors(users: Array, weights: Weights, settings: PreferenceSettings) -> UserVectors:
    """The vectors of users with likes. A branch that is switched off is zero."""
    nothing = users - users
    interest = branch(users, weights, "interest") if settings.branches != "conformity" else nothing
    conformity = branch(users, weights, "conformity") if settings.branches != "interest" else nothing
    if settings.branches == "both":
        share = gate(interest, conformity, weights)
        return UserVectors(interest, conformity, fused(interest, conformity, share), share)
    only = conformity if interest is nothing else interest
    return UserVectors(interest, conformity, only, nothing[..., 0] + float(only is interest))


def attention(views: Array, present: Array, weights: Weights) -> Array:
    """(18-20): merge the views of users, of shape (users, views, dimensions). Absent views have no weight."""
    asked = tanh(linear(views, weights, "views")) @ weights["views.asks"]
    return (softmax(asked - 1e9 * (1.0 - present))[..., None] * views).sum(-2)


def action(texts: Array, weights: Weights) -> Array:
    """(38): return the position of texts in the collaborative space, of unit length."""
    return normalised(linear(texts, weights, "action"))


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as tensors. Users and items are nodes of the graph."""

    users: Any  # the distinct users
    items: Any  # the distinct liked items
    others: Any  # for each like, an item that isn't liked
    user: Any  # for each like, the index in `users`
    item: Any  # for each like, the index in `items`
    compared: Any  # indexes in `users`, sorted: the users whose contrastive losses are computed
    liked: Any  # shape (compared, items): what each of these users is known to like
    popularity: Any  # popularity of `items`
    texts: Any  # text vectors of `items`, or None without texts
    other_texts: Any


def objective(batch: Batch, before: Rows, after: Rows, weights: Weights, settings: PreferenceSettings) -> Any:
    """Return the loss of a batch, from its rows before and after the propagation."""
    users, items, unliked = after
    liked_items, vectors = items[batch.item], user_vectors(users, weights, settings)
    merged = vectors.fused
    # (37): return the weight decay of the embeddings before the propagation, three per like.
    before_users, before_items, others = before
    sizes = (before_users**2).sum(-1)[batch.user], (before_items**2).sum(-1)[batch.item], (others**2).sum(-1)
    loss = settings.decay * (sum(size.mean() for size in sizes) / 2)
    if settings.ranking_loss:
        loss = loss + settings.ranking_loss * ranking(merged[batch.user], liked_items, unliked)
    columns = normalised(items).T / settings.temperature
    for name, weight in {"interest": settings.interest_loss, "conformity": settings.conformity_loss}.items():
        if weight and settings.branches in ("both", name):
            rows, importance = getattr(vectors, name)[batch.compared], _importance(batch, name, settings)
            loss = loss + weight * _contrast(rows, columns, batch, importance)
    if settings.branches == "both" and settings.orthogonality_loss:
        overlap = (vectors.interest * vectors.conformity).sum(-1)
        loss = loss + settings.orthogonality_loss * (overlap**2).mean()
    if settings.user_loss:  # (35, 36): the contrastive loss between users, estimated from the compared users
        unit = normalised(merged)
        scores = unit[batch.compared] @ unit.T / settings.temperature
        apart = scores.logsumexp(1) - scores.gather(1, batch.compared[:, None])[:, 0]
        loss = loss + settings.user_loss * apart.mean()
    if batch.texts is not None and settings.action_loss:  # (39, 40): over the items that have a text
        texts, others = action(batch.texts, weights), action(batch.other_texts, weights)
        known, other_known = (batch.texts != 0).any(-1), (batch.other_texts != 0).any(-1)
        apart = ((1.0 - (texts * normalised(items.detach())).sum(-1)) * known).sum() / known.sum().clip(min=1)
        pairs = known[batch.item] & other_known
        if pairs.any():
            apart = apart + ranking(merged[batch.user][pairs], texts[batch.item][pairs], others[pairs])
        loss = loss + settings.action_loss * apart
    return loss


def ranking(users: Any, items: Any, others: Any) -> Any:
    """(33): return the BPR loss."""
    from torch.nn.functional import softplus

    return softplus((users * (others - items)).sum(-1)).mean()


def _importance(batch: Batch, name: str, settings: PreferenceSettings) -> Any:
    """(27, 29): return the weight of each item's likes in a branch."""
    import torch

    if not settings.popularity_weighting:
        return torch.ones_like(batch.popularity)
    return batch.popularity if name == "conformity" else 1.0 - batch.popularity


def _contrast(users: Any, columns: Any, batch: Batch, importance: Any) -> Any:
    """(28, 30): return the contrastive loss of a branch, estimated from the likes of the compared users."""
    import torch
    from torch.nn.functional import softplus

    places = torch.full_like(batch.users, -1)
    places[batch.compared] = torch.arange(len(batch.compared), device=places.device)
    row = places[batch.user]
    row, item = row[row >= 0], batch.item[row >= 0]
    scores = users @ columns
    against = scores.masked_fill(batch.liked, -1e4).logsumexp(1)
    total = (importance[item] * softplus(against[row] - scores[row, item])).sum()
    return total * len(batch.users) / (len(batch.compared) * len(batch.user))


ROWS_AT_ONCE = 500_000  # edges that the numpy product holds at a time (128 MB at 64 dimensions)


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The graph of users, then items, that LightGCN propagates over (25), as a sparse matrix in compressed rows.

    It is symmetric, so the backward pass is the forward pass again. Training multiplies with torch's CSR, and scoring
    in numpy, so that a model takes in new interactions without torch.

    >>> graph = Adjacency.of(np.array([[0, 1], [0, 0]]), users=2, items=1)
    >>> (propagated(np.eye(3, dtype=np.float32), graph, layers=1) * 100).astype(int).tolist()
    [[50, 0, 35], [0, 50, 35], [35, 35, 50]]
    """

    starts: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: Float32Array

    @classmethod
    def of(cls, likes: NDArray[np.int64], users: int, items: int) -> Adjacency:
        """Return D^-1/2 A D^-1/2 of the likes, each of which counts once."""
        rows, columns = np.concatenate([likes, likes[::-1]], axis=1) + np.repeat(
            [[0, users], [users, 0]], likes.shape[1], axis=1
        )
        degrees = np.maximum(np.bincount(rows, minlength=users + items), 1).astype(np.float32)
        values = 1.0 / np.sqrt(degrees[rows] * degrees[columns])
        order = np.lexsort((columns, rows))
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=users + items))]).astype(np.int64)
        return cls(starts, columns[order].astype(np.int64), values[order].astype(np.float32))

    def neighbours(self, node: int) -> NDArray[np.int64]:
        return self.columns[self.starts[node] : self.starts[node + 1]]


def propagated(embeddings: Float32Array, graph: Adjacency, layers: int) -> Float32Array:
    """Return the mean over all layers, in numpy."""
    total, layer = embeddings.copy(), embeddings
    for _ in range(layers):
        result = np.zeros_like(layer)
        filled = np.flatnonzero(np.diff(graph.starts))
        begin = 0
        while begin < len(filled):
            # At least one row at a time, and as many as fit.
            limit = graph.starts[filled[begin]] + ROWS_AT_ONCE
            end = max(begin + 1, int(np.searchsorted(graph.starts[filled + 1], limit, side="right")))
            rows = filled[begin:end]
            edges = slice(graph.starts[rows[0]], graph.starts[rows[-1] + 1])
            messages = layer[graph.columns[edges]] * graph.values[edges, None]
            result[rows] = np.add.reduceat(messages, graph.starts[rows] - graph.starts[rows[0]], axis=0)
            begin = end
        layer = result
        total += layer
    return np.asarray(total / (layers + 1), np.float32)


def matrix_of(graph: Adjacency, device: str) -> Any:
    """Return an adjacency as a sparse torch matrix. It is symmetric, so the backward pass multiplies with it, too."""
    import torch

    # 32-bit indexes are MKL's own. Others would be converted at each product.
    starts, columns = torch.from_numpy(graph.starts).int(), torch.from_numpy(graph.columns).int()
    nodes = len(graph.starts) - 1
    parts = (part.to(device) for part in (starts, columns, torch.from_numpy(graph.values)))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        return torch.sparse_csr_tensor(*parts, (nodes, nodes), check_invariants=False)


def propagate(embeddings: Any, matrix: Any, layers: int) -> Any:
    """Return the mean over all layers, in torch, with its gradient."""
    return _function().apply(embeddings, matrix, layers)


@cache
def _function() -> Any:
    """Return the autograd function. It is defined on first use, because its base class is torch's."""
    import torch

    def mean(embeddings: Any, matrix: Any, layers: int) -> Any:
        total, layer = embeddings.clone(), embeddings
        for _ in range(layers):
            layer = matrix @ layer
            total += layer
        return total.div_(layers + 1)

    class Propagation(torch.autograd.Function):  # type: ignore[misc]  # torch is Any here
        @staticmethod
        def forward(context: Any, embeddings: Any, *about: Any) -> Any:
            context.about = about
            return mean(embeddings, *about)

        @staticmethod
        def backward(context: Any, *gradients: Any) -> Any:
            return mean(gradients[0], *context.about), None, None

    return Propagation
