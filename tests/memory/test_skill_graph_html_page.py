"""The page of a skill graph: all that is in it, nothing that leaves it."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from agentfw_memory import NewSkill, SkillGraph
from agentfw_memory.graph.html_page import MAXIMUM_NODES, graph_page, layout

networkx = pytest.importorskip("networkx")


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def page_of(*skills: NewSkill) -> str:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash") as graph:
        graph.add_skills(skills)
        graph.prepare()
        return graph_page(graph.to_networkx(), title="team")


def test_every_node_and_edge_is_on_it_and_can_be_found() -> None:
    page = page_of(NewSkill("ana", "Offer the earliest slot", ("calendar",), ("rescheduling",), "shared"))
    data = data_of(page)
    assert {node["label"] for node in data["nodes"]} == {"ana", "Offer the earliest slot", "calendar", "rescheduling"}
    (skill,) = [node for node in data["nodes"] if node["kind"] == "skill"]
    assert skill["facts"]["visible to"] == "everybody in the tenant"
    assert "earliest" in skill["words"]
    assert sorted(kind for _, _, kind in data["edges"]) == ["APPLIES_TO", "OWNS", "REQUIRES"]
    assert page == page_of(NewSkill("ana", "Offer the earliest slot", ("calendar",), ("rescheduling",), "shared"))


def test_no_text_becomes_markup_and_nothing_is_loaded() -> None:
    evil = "</script><script>alert(1)</script> {{DATA}} \u2028 <!--"
    page = page_of(NewSkill("ana", evil))
    assert [node["label"] for node in data_of(page)["nodes"] if node["kind"] == "skill"] == [evil]
    assert page.count("<script") == 2
    assert "innerHTML" not in page
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(", page)


def test_communities_lie_apart_and_one_seed_makes_one_picture() -> None:
    groups = [0] * 20 + [1] * 20
    pairs = [(one, other) for start in (0, 20) for one in range(start, start + 20) for other in range(start, one)]
    spots = layout(groups, np.array(pairs), seed=7)
    centres = spots[:20].mean(0), spots[20:].mean(0)
    within = np.linalg.norm(spots[:20] - centres[0], axis=1).mean()
    assert np.linalg.norm(centres[0] - centres[1]) > 2 * within
    assert np.array_equal(spots, layout(groups, np.array(pairs), seed=7))
    assert not np.array_equal(spots, layout(groups, np.array(pairs), seed=8))


def test_an_empty_graph_and_one_node_have_a_page() -> None:
    assert data_of(page_of())["nodes"] == []
    lonely = networkx.MultiDiGraph()
    lonely.add_node("user:ana", kind="user")
    assert np.isfinite(data_of(graph_page(lonely, title="t"))["nodes"][0]["x"])


@pytest.mark.slow
def test_what_is_too_large_is_shown_in_part_and_says_so() -> None:
    graph = networkx.MultiDiGraph()
    graph.add_nodes_from((f"tool:{number}", {"kind": "tool"}) for number in range(MAXIMUM_NODES + 5))
    graph.add_edge("tool:5003", "tool:5004", key="OWNS")
    data = data_of(graph_page(graph, title="t"))
    assert len(data["nodes"]) == MAXIMUM_NODES
    assert "5,005 nodes, 1 edges, 0 communities (only the 5,000 nodes with the most edges are shown)" in data["counts"]
    assert [node["label"] for node in data["nodes"][:2]] == ["5003", "5004"]
