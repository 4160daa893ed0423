"""The objective of stage 2 (formula 42), term by term.

The one rule: a term whose weight is 0 isn't computed. Each is a mean over the batch, so that its weight means the
same at every size.

| term | formula | what it wants |
| --- | --- | --- |
| ranking | 33 | liked items above items drawn at random |
| interest | 28 | the branch finds the batch's liked items; unpopular ones count more |
| conformity | 30 | the same with popular ones |
| orthogonality | 34 | the two branches of a user are at right angles |
| user | 35, 36 | users of a batch are told apart |
| action | 38-41 | an item's text lies where the item is, and ranks as it does |
| decay | 37 | small embeddings |

In the contrasts each item of the batch is compared once, however many liked it, and what else a user likes is no
negative for them. So one row of comparisons serves all likes of a user in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentfw_rewardmodels.preference.formulas import Weights, action, branch, fused, gate, normalised
from agentfw_rewardmodels.preference.preference_settings import PreferenceSettings

__all__ = ["Batch", "Embeddings", "branches_of", "fused_of", "objective", "ranking"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Places, as tensors. Users and liked items are given once each, and every like says which of them it is about."""

    users: Any
    """Distinct users, among the nodes."""
    items: Any
    """Distinct liked items, among the nodes."""
    others: Any
    """For each like an item that isn't liked, among the nodes."""
    user: Any
    """For each like the place in `users`."""
    item: Any
    """For each like the place in `items`."""
    liked: Any
    """(users, items): what each user of the batch is known to like."""
    popularity: Any
    """Of `items`."""
    texts: Any
    """Of `items`; None without texts."""
    other_texts: Any


@dataclass(frozen=True, slots=True)
class Embeddings:
    """What the propagation gave for the batch's nodes, and the embeddings that went in."""

    users: Any
    items: Any
    others: Any
    before: tuple[Any, Any, Any]


def objective(batch: Batch, embeddings: Embeddings, weights: Weights, settings: PreferenceSettings) -> Any:
    """The whole loss of a batch."""
    users, items = embeddings.users, embeddings.items
    liked_items, both = items[batch.item], settings.branches == "both"
    branches = branches_of(users, weights, settings)
    merged = fused_of(branches, weights)
    loss = settings.decay * _decay(batch, embeddings)
    if settings.ranking_loss:
        loss = loss + settings.ranking_loss * ranking(merged[batch.user], liked_items, embeddings.others)
    contrasts = [
        (name, weight) for name, weight in _contrast_weights(settings).items() if weight and branches[name] is not None
    ]
    if contrasts:
        columns = normalised(items).T / settings.temperature
        for name, weight in contrasts:
            loss = loss + weight * _contrast(branches[name], columns, batch, _importance(batch, name, settings))
    if both and settings.orthogonality_loss:
        overlap = (branches["interest"] * branches["conformity"]).sum(-1)
        loss = loss + settings.orthogonality_loss * (overlap**2).mean()
    if settings.user_loss:
        loss = loss + settings.user_loss * _told_apart(normalised(merged), settings.temperature)
    if batch.texts is not None and settings.action_loss:
        loss = loss + settings.action_loss * _action(batch, items, merged, weights)
    return loss


def branches_of(users: Any, weights: Weights, settings: PreferenceSettings) -> dict[str, Any]:
    """(26), normalised; None for a branch that is switched off."""
    return {
        name: branch(users, weights, name) if settings.branches in ("both", name) else None
        for name in ("interest", "conformity")
    }


def fused_of(branches: dict[str, Any], weights: Weights) -> Any:
    """(32), or the only branch that there is."""
    interest, conformity = branches["interest"], branches["conformity"]
    if interest is None or conformity is None:
        return conformity if interest is None else interest
    return fused(interest, conformity, gate(interest, conformity, weights))


def ranking(users: Any, items: Any, others: Any) -> Any:
    """(33): BPR."""
    from torch.nn.functional import softplus

    return softplus((users * (others - items)).sum(-1)).mean()


def _contrast_weights(settings: PreferenceSettings) -> dict[str, float]:
    return {"interest": settings.interest_loss, "conformity": settings.conformity_loss}


def _importance(batch: Batch, name: str, settings: PreferenceSettings) -> Any:
    """(27, 29): how much a like counts for a branch."""
    if not settings.popularity_weighting:
        return 1.0
    popular = batch.popularity[batch.item]
    return popular if name == "conformity" else 1.0 - popular


def _contrast(users: Any, columns: Any, batch: Batch, importance: Any) -> Any:
    """(28, 30)."""
    from torch.nn.functional import softplus

    scores = users @ columns
    against = scores.masked_fill(batch.liked, -1e4).logsumexp(1)
    return (importance * softplus(against[batch.user] - scores[batch.user, batch.item])).mean()


def _told_apart(users: Any, temperature: float) -> Any:
    """(35, 36): each user is most like themselves."""
    scores = users @ users.T / temperature
    return (scores.logsumexp(1) - scores.diagonal()).mean()


def _action(batch: Batch, items: Any, users: Any, weights: Weights) -> Any:
    """(39, 40), over the items that have a text."""
    texts, others = action(batch.texts, weights), action(batch.other_texts, weights)
    known, other_known = (batch.texts != 0).any(-1), (batch.other_texts != 0).any(-1)
    apart = ((1.0 - (texts * normalised(items.detach())).sum(-1)) * known).sum() / known.sum().clip(min=1)
    pairs = known[batch.item] & other_known
    if not pairs.any():
        return apart
    return apart + ranking(users[batch.user][pairs], texts[batch.item][pairs], others[pairs])


def _decay(batch: Batch, embeddings: Embeddings) -> Any:
    """(37), of what went into the propagation, each like's three embeddings counted."""
    users, items, others = embeddings.before
    sizes = (users**2).sum(-1)[batch.user], (items**2).sum(-1)[batch.item], (others**2).sum(-1)
    return sum(size.mean() for size in sizes) / 2
