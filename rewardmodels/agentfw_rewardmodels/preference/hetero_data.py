"""Reads users and items from a graph of PyTorch Geometric, and writes embeddings into such a graph.

    model = PreferenceModel.fit(data)
    data = model.to_hetero_data(data)    # now with data["user"].embedding and data["movie"].embedding

Users are the nodes of the type `user`, items are the nodes at the other end of their edges, whatever their type is
called. A node is known by its `name`, or by its index if the nodes of its type have no names. `value` and `time` of the
edges mean what they mean in a table. Texts are read from `text` of the items and `profile` of the users.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentfw_rewardmodels.errors import BadInputError
from agentfw_rewardmodels.preference.encoders import Float32Array

__all__ = ["hetero_interactions", "hetero_texts", "is_hetero_data", "with_embeddings"]

USER = "user"


def is_hetero_data(source: Any) -> bool:
    return hasattr(source, "node_types") and hasattr(source, "edge_types")


def hetero_interactions(data: Any) -> list[dict[str, Any]]:
    """Return one row for each edge between a user and an item."""
    relation = _relation(data)
    edges = data[relation]
    ends = edges.edge_index.tolist()
    columns = {
        column: [names[place] for place in places]
        for column, names, places in zip(
            ("user", "item"), (_names(data, relation, side) for side in (0, 1)), ends, strict=True
        )
    }
    for column in ("value", "time"):
        if column in edges:
            columns[column] = edges[column].tolist()
            if len(columns[column]) != len(ends[0]):
                raise BadInputError(
                    f"{relation} has {len(ends[0])} edges, but {len(columns[column])} entries of {column}",
                    fix=f"give each edge one {column}",
                )
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def hetero_texts(data: Any) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the texts of the items and the profiles of the users, each by name, or None if there are none."""
    relation = _relation(data)
    found = []
    for side, attribute in ((1, "text"), (0, "profile")):
        nodes, names = data[relation[2 * side]], _names(data, relation, side)
        texts = nodes.get(attribute, None)
        if texts is not None and len(texts) != len(names):
            raise BadInputError(
                f"{len(names)} nodes are of type {relation[2 * side]}, but there are {len(texts)} of {attribute}",
                fix=f"give each node one {attribute}, empty if it has none",
            )
        found.append(None if texts is None else dict(zip(names, texts, strict=True)))
    return found[0], found[1]


def with_embeddings(data: Any, users: Mapping[str, Float32Array], items: Mapping[str, Float32Array]) -> Any:
    """Return a copy of a graph whose users and items have an `embedding`. Unknown nodes get zeros."""
    import torch

    relation, result = _relation(data), copy.copy(data)
    for side, known in enumerate((users, items)):
        names = _names(data, relation, side)
        rows = np.zeros((len(names), len(next(iter(known.values())))), np.float32)
        for place, name in enumerate(names):
            if name in known:
                rows[place] = known[name]
        result[relation[2 * side]].embedding = torch.from_numpy(rows)
    return result


def _relation(data: Any) -> tuple[str, str, str]:
    """Return the type of the edges between users and items."""
    found: list[tuple[str, str, str]] = [kind for kind in data.edge_types if kind[0] == USER and kind[2] != USER]
    if len(found) != 1:
        listed = ", ".join(map(str, found or data.edge_types)) or "none"
        raise BadInputError(
            f"the graph has {len(found)} types of edges from users to items, not one: {listed}",
            fix="call the users `user`, and choose one type with data.edge_type_subgraph([...])",
        )
    return found[0]


def _names(data: Any, relation: tuple[str, str, str], side: int) -> Sequence[str]:
    """Return the names of the users (side 0) or the items (side 1)."""
    kind, ends = relation[2 * side], data[relation].edge_index[side]
    nodes, needed = data[kind], int(ends.max()) + 1 if len(ends) else 0
    names = nodes["name"] if "name" in nodes else range(nodes.num_nodes or needed)
    if len(names) < needed or (len(ends) and int(ends.min()) < 0):
        raise BadInputError(
            f"an edge ends at a node {kind} that isn't there; there are {len(names)}", fix="call data.validate()"
        )
    return [str(name).strip() for name in (names.tolist() if hasattr(names, "tolist") else names)]
