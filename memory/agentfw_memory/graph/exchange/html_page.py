"""Renders a skill graph as one HTML page: coloured by community, searchable, and self-contained.

    graph_page(graph.admin.to_networkx(), title="team-a")

With `recalled=`, it also shows what a query found for a user, and what each term added to the score of each hit.

The page makes no request. Data, style and script are in the one file, its content security policy forbids any
connection, and user text never becomes markup.

Positions are computed here, from a seed: each node starts beside its community, then edges pull and all nodes push (by
igraph; without it, nodes stay there).
The page shows the whole tenant, private skills included, so it is meant for whoever operates the store.
"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from agentfw_memory.graph.arrays import Floats, Integers
from agentfw_memory.graph.communities import igraph_random
from agentfw_memory.graph.records import Hit

if TYPE_CHECKING:
    import networkx

MAXIMUM_NODES = 5_000
"""Maximum number of nodes on a page. Of larger graphs, those with the most edges are shown."""
SMALLEST_COLOURED = 3
"""Minimum size of a community with a colour of its own. Smaller ones are grey."""
STEPS = 200


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a query found for a user, best first."""

    query: str
    user: str
    hits: tuple[Hit, ...]


def graph_page(
    graph: networkx.MultiDiGraph[str], *, title: str, recalled: Recalled | None = None, seed: int = 7
) -> str:
    """Return the page as HTML. A recalled skill is shown even if it has few edges."""
    found = {f"skill:{hit.skill.id}" for hit in recalled.hits} if recalled else set()
    names = sorted(graph.nodes, key=lambda name: (name not in found, -graph.degree(name), name))[:MAXIMUM_NODES]
    place = {name: number for number, name in enumerate(names)}
    edges = [
        (place[source], place[target], kind)
        for source, target, kind in graph.edges(keys=True)
        if source in place and target in place
    ]
    groups = _groups([graph.nodes[name] for name in names])
    where = layout(groups, np.array([edge[:2] for edge in edges], np.int64).reshape(-1, 2), seed=seed)
    data = {
        "title": title,
        "counts": _counted(graph.number_of_nodes(), graph.number_of_edges(), len(names), len(set(groups) - {-1})),
        "nodes": [
            _node(name, graph.nodes[name], group, spot)
            for name, group, spot in zip(names, groups, where.tolist(), strict=True)
        ],
        "edges": edges,
        "recalled": None if recalled is None else _recalled(recalled, place),
    }
    # Without `<`, no text can end the script element that holds it.
    encoded = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return files(__package__).joinpath("html_page.html").read_text("utf-8").replace("{{DATA}}", encoded)


def layout(groups: list[int], edges: Integers, *, seed: int) -> Floats:
    """Return the position of each node, as an array of shape (nodes, 2)."""
    linked = np.unique(edges)
    alone = np.setdiff1d(np.arange(len(groups)), linked)
    spots = np.zeros((len(groups), 2))
    spots[linked] = _balanced([groups[node] for node in linked.tolist()], np.searchsorted(linked, edges), seed)
    # Nothing holds the other nodes, which would drift away. They lie on a circle around the rest.
    far = 1.15 * max(float(np.linalg.norm(spots, axis=1).max(initial=0.0)), 3.0 * len(alone))
    angles = np.linspace(0.0, 2.0 * np.pi, len(alone), endpoint=False)
    spots[alone] = far * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.round(spots, 1)


def _balanced(groups: list[int], edges: Integers, seed: int) -> Floats:
    """Return where nodes end up that start beside their community, push each other, and are pulled by their edges."""
    count, generator = len(groups), np.random.default_rng(seed)
    if not count:
        return np.zeros((0, 2))
    ranks = np.unique(groups, return_inverse=True)[1]
    # Communities lie on a spiral that fills a disc evenly. 2.4 is the golden angle.
    far = np.sqrt((ranks + 0.5) / (ranks.max() + 1))
    spots: Floats = np.stack([far * np.cos(2.4 * ranks), far * np.sin(2.4 * ranks)], 1)
    spots += generator.normal(0, 0.1, (count, 2))
    spots *= 40.0 * np.sqrt(count)
    if importlib.util.find_spec("igraph"):
        import igraph

        with igraph_random(seed):
            graph = igraph.Graph(count, edges=edges.tolist())
            laid = graph.layout_fruchterman_reingold(seed=spots.tolist(), niter=STEPS, grid=count >= 1_000)
        spots = 40.0 * np.array(laid.coords, np.float64)
    spots -= spots.mean(0)
    return spots


def _groups(nodes: list[dict[str, Any]]) -> list[int]:
    """Return the rank of each node's community by size, or -1 for none or a very small one."""
    found = [node.get("community_1", node.get("community_0", -1)) for node in nodes]
    sizes = Counter(found)
    sizes.pop(-1, None)
    rank = {group: number for number, (group, size) in enumerate(sizes.most_common()) if size >= SMALLEST_COLOURED}
    return [rank.get(group, -1) for group in found]


def _node(name: str, values: dict[str, Any], group: int, spot: list[float]) -> dict[str, Any]:
    kind, _, own = name.partition(":")
    facts: dict[str, str] = {}
    if kind == "skill":
        uses = values.get("uses", 0)
        facts["visible to"] = "everybody in the tenant" if values["visibility"] == "shared" else "its owner"
        facts["uses"] = f"{uses:,}" + (f", mean reward {values['rewards'] / uses:.2f}" if uses else "")
    if group >= 0:
        facts["community"] = str(group + 1)
    label = str(values.get("text", own))
    return {
        "kind": kind,
        "id": own if kind == "skill" else "",
        "label": label,
        "words": f"{kind} {own} {label}".lower(),
        "community": group,
        "facts": facts,
        "x": spot[0],
        "y": spot[1],
    }


def _recalled(recalled: Recalled, place: Mapping[str, int]) -> dict[str, Any]:
    hits = [
        {
            "node": place[f"skill:{hit.skill.id}"],
            "score": round(hit.score, 3),
            "points": {name: points for name, value in hit.why.points.items() if (points := round(value, 3))},
            "path": hit.why.path,
        }
        for hit in recalled.hits
        # Another process may have removed a skill since it was recalled.
        if f"skill:{hit.skill.id}" in place
    ]
    return {"query": recalled.query, "user": recalled.user, "hits": hits}


def _counted(nodes: int, edges: int, shown: int, communities: int) -> str:
    text = f"{nodes:,} nodes, {edges:,} edges, {communities:,} communities"
    return text if shown == nodes else f"{text} (only the {shown:,} nodes with the most edges are shown)"
