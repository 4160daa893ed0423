"""The page of a skill graph: all that is in it, nothing that leaves it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentfw_memory import Hit, NewSkill, Skill, SkillGraph, Why
from agentfw_memory.graph.exchange.html_page import MAXIMUM_NODES, Recalled, graph_page, layout

networkx = pytest.importorskip("networkx")


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def page_of(*skills: NewSkill) -> str:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash") as graph:
        graph.add_all(skills)
        graph.prepare()
        return graph_page(graph.admin.to_networkx(), title="team")


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


def test_nodes_without_edges_leave_the_others_room() -> None:
    pairs = np.array([(one, one + 1) for one in range(19)])

    spots = layout([0] * 60, pairs, seed=7)

    linked, alone = (np.linalg.norm(some, axis=1) for some in (spots[:20], spots[20:]))
    assert linked.max() < alone.min() < 1.3 * linked.max()


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


# -- what a query found ------------------------------------------------------------------------------------------------

EVIL = "</script><script>window.taken=1</script><img src=x onerror='window.taken=1'>"
SKILLS = (
    NewSkill("ana", "Offer the earliest slot", ("calendar",), ("rescheduling",)),
    NewSkill("ben", "Offer the latest slot", ("calendar",), ("rescheduling",), "shared"),
    NewSkill("ben", "Never move lunch", visibility="shared"),
    NewSkill("ana", f"Say {EVIL}"),
)


def recalled_page(query: str, user: str = "ana") -> tuple[str, list[Hit]]:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash") as graph:
        graph.add_all(SKILLS)
        graph.prepare()
        hits = graph.recall(query, user=user, k=3)
        return graph_page(graph.admin.to_networkx(), title="team", recalled=Recalled(query, user, tuple(hits))), hits


def hit_of(skill: str) -> Hit:
    why = Why(0.5, 0, 0, 0, 0, 0, 0, "similar to the query", {"words": 0.25, "user": 0.0001, "conflict": -0.1})
    return Hit(0.15, Skill(skill, "ana", "Offer the earliest slot"), why)


def test_the_points_of_each_term_add_up_to_the_score() -> None:
    page, hits = recalled_page("which slot do I offer?")

    told = data_of(page)["recalled"]["hits"]
    assert len(told) == 3
    for one, hit in zip(told, hits, strict=True):
        assert data_of(page)["nodes"][one["node"]]["label"] == hit.skill.text
        assert sum(one["points"].values()) == pytest.approx(hit.score, abs=0.005)
        assert 0 not in one["points"].values()


def test_a_recalled_skill_is_shown_however_large_the_graph_is() -> None:
    graph = networkx.MultiDiGraph()
    graph.add_nodes_from((f"tool:{number}", {"kind": "tool"}) for number in range(20))
    networkx.add_cycle(graph, [f"tool:{number}" for number in range(20)])
    graph.add_node("skill:s1", kind="skill", text="Offer the earliest slot", visibility="shared")

    recalled = Recalled("which slot?", "ana", (hit_of("s1"), hit_of("s2")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentfw_memory.graph.exchange.html_page.MAXIMUM_NODES", 5)
        data = data_of(graph_page(graph, title="t", recalled=recalled))

    (told,) = data["recalled"]["hits"]  # s2 was removed after it was recalled
    assert data["nodes"][told["node"]]["id"] == "s1"
    assert told["points"] == {"words": 0.25, "conflict": -0.1}


@pytest.mark.slow
def test_the_browser_lists_what_was_found_by_rank_and_by_term(tmp_path: Path, chromium: Callable[..., Any]) -> None:
    page, hits = recalled_page(f"which slot do I offer? {EVIL}")
    file = tmp_path / "skills.html"
    file.write_text(page, "utf-8")
    browser = chromium()
    browser.size(350, 800)

    browser.open(file)

    items = "[...document.querySelectorAll('#found li')]"
    texts = browser.evaluate(f"{items}.map((one) => one.textContent)")
    for rank, (text, hit) in enumerate(zip(texts, hits, strict=True), start=1):
        assert text.startswith(f"{rank}. score {hit.score:.3f}")
        assert hit.skill.text in text
        assert all(name in text for name, value in hit.why.points.items() if abs(value) > 0.001)
    assert EVIL in browser.evaluate("element('asked').textContent")
    assert browser.evaluate("document.documentElement.scrollWidth") == 350

    browser.evaluate(f"{items}[1].querySelector('button').click()")
    assert hits[1].skill.text in browser.evaluate("element('details').textContent")
    assert browser.evaluate("document.querySelectorAll('#details .bar').length") > 0

    browser.evaluate("element('search').value = 'lunch'; search()")
    assert browser.evaluate(f"{items}.map((one) => one.textContent)") == ["skillNever move lunch"]

    browser.evaluate("element('search').value = ''; [...element('kinds').children].at(-1).click()")
    assert browser.evaluate(f"{items}.length") == 0
    assert browser.evaluate("window.taken") is None
    assert browser.problems == []


@pytest.mark.slow
def test_the_browser_says_that_nothing_was_found(tmp_path: Path, chromium: Callable[..., Any]) -> None:
    file = tmp_path / "skills.html"
    file.write_text(graph_page(networkx.MultiDiGraph(), title="t", recalled=Recalled("slots?", "cleo", ())), "utf-8")
    browser = chromium()

    browser.open(file)

    assert browser.evaluate("element('found').textContent") == "No skill visible to cleo matches."
    assert browser.problems == []


@pytest.mark.slow
def test_the_graph_stays_bright_where_nothing_was_found(tmp_path: Path, chromium: Callable[..., Any]) -> None:
    file = tmp_path / "skills.html"
    graph = networkx.MultiDiGraph()
    graph.add_node("user:ana", kind="user")
    file.write_text(graph_page(graph, title="t", recalled=Recalled("slots?", "ana", ())), "utf-8")
    browser = chromium()
    alphas = """(() => { const seen = [], fill = pen.fill.bind(pen);
        pen.fill = () => { seen.push(pen.globalAlpha); fill(); }; draw(); pen.fill = fill; return seen; })()"""

    browser.open(file)
    without_hits = browser.evaluate(alphas)
    browser.evaluate("(() => { element('search').value = 'zzzz'; search(); })()")
    without_words = browser.evaluate(alphas)

    assert without_hits == without_words == [1]
    assert browser.evaluate("element('found').textContent") == "Nothing has these words."


@pytest.mark.slow
def test_no_label_is_cut_off_at_the_edge_of_a_phone(tmp_path: Path, chromium: Callable[..., Any]) -> None:
    file = tmp_path / "skills.html"
    texts = [f"Offer the slot number {number} first" for number in range(12)]
    file.write_text(page_of(*(NewSkill("ana", text) for text in texts)), "utf-8")
    browser = chromium()
    browser.size(380, 780)
    labels = """(() => { const seen = [], write = pen.fillText.bind(pen); pen.fillText = (text, x, y) => {
        const half = pen.measureText(text).width / 2; seen.push([x - half, x + half]); write(text, x, y); };
        draw(); pen.fillText = write; return seen; })()"""

    browser.open(file)
    shown = browser.evaluate(labels)

    assert shown
    assert all(left >= 0 and right <= 380 for left, right in shown)
