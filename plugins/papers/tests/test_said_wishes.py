"""The users' wishes are read from what they say, so that a memory and the worlds' policies understand each other."""

from __future__ import annotations

from pathlib import Path

import pytest

import agentfw
from agentfw_memory import Step, Trajectory
from agentfw_papers.said_wishes import extract_wishes

pytest.importorskip("igraph")


def test_what_is_said_in_other_words_is_left_out() -> None:
    said = "Next time, quiet places please.\nWe really like quiet places.\nHmm, loud? That isn't really me."
    steps = (Step("call", tool="call", worked=False), Step("look", tool="search"), Step("book", tool="book"))
    trip = Trajectory("t1", "ana", "a table", ("dining",), steps, said)
    assert [(draft.text, draft.tools, draft.wish) for draft in extract_wishes(trip)] == [
        ("For dining, prefer quiet places", ("search", "book"), True),
        ("For dining, when call fails, use search", ("call", "search"), False),
        ("For dining, use search, then book", ("search", "book"), False),
    ]


@pytest.mark.slow
def test_a_merchant_whose_wishes_are_remembered_is_served_better(tmp_path: Path) -> None:
    """Merchants of whom nothing is known beforehand, by the policy and the memory that the world starts with."""
    few = {"environment.stated": 0.0, "environment.test_merchants": 6, "concurrency": 6}
    remembered, forgotten = (
        agentfw.run("merchant", episodes=48, settings={**few, "memory.skillgraph.evolve": evolve}, runs=tmp_path / name)
        for name, evolve in (("remembered", True), ("forgotten", False))
    )
    assert remembered.figures["score"].low > forgotten.figures["score"].estimate
