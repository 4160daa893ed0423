"""Many small graphs in one process: those that were used last stay in memory, and the others answer too."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from agentfw_memory import SkillGraph, skill_graph


def test_only_the_graphs_that_were_used_last_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skill_graph, "MOST_LOADED", 3)
    with ExitStack() as stack:
        graphs = [
            stack.enter_context(SkillGraph.open(tmp_path / "a.db", tenant=f"t{number}", embedder="hash:16"))
            for number in range(8)
        ]
        for _ in range(2):
            for graph in graphs:
                graph.add(owner="ana", text=f"of {graph.tenant}")
                assert [hit.skill.text for hit in graph.recall("of", user="ana")] == [f"of {graph.tenant}"]
        assert [len(graph._recaller.cache) for graph in graphs] == [0, 0, 0, 0, 0, 1, 1, 1]
        graphs[0].recall("of", user="ana")
        assert [len(graph._recaller.cache) for graph in graphs] == [1, 0, 0, 0, 0, 0, 1, 1]


def test_large_graphs_and_those_in_use_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skill_graph, "MOST_LOADED", 1)
    monkeypatch.setattr(skill_graph, "SMALL", 1)
    with (
        SkillGraph.open(tmp_path / "a.db", tenant="large", embedder="hash:16") as large,
        SkillGraph.open(tmp_path / "a.db", tenant="small", embedder="hash:16") as small,
    ):
        for text in ("one", "two"):
            large.add(owner="ana", text=text)
        large.recall("one", user="ana")
        small.recall("one", user="ana")
        assert len(large._recaller.cache) == 2
