"""A skill graph in a DuckDB file: found by its scheme, closed to other processes, and empty of who was forgotten."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentfw_memory import NewSkill, SkillGraph, StoreBusyError, StoreRefusedError

pytest.importorskip("duckdb")
pytest.importorskip("igraph")


def test_a_graph_recalls_learns_and_forgets(tmp_path: Path) -> None:
    path = tmp_path / "skills.duckdb"
    where = f"duckdb://{path}"
    with SkillGraph.open(where, tenant="team", embedder="hash") as graph:
        graph.add(owner="ana", text="zanzibar trips need a visa")
        graph.add_all(NewSkill("ben", f"way {place}", visibility="shared") for place in range(20))
        learned = graph.learn({"id": "t", "user": "ben", "query": "q", "outcome": "I prefer mornings."}, 0.9)
        assert graph.recall("a visa for zanzibar?", user="ana")[0].skill.owner == "ana"
        assert graph.forget("ana").skills == 1
        assert b"zanzibar" not in path.read_bytes()
    with SkillGraph.open(where, tenant="team") as graph:
        assert graph.get(learned.added[0]).text == "I prefer mornings."
        assert {hit.skill.owner for hit in graph.recall("zanzibar way 3", user="ana")} == {"ben"}
    assert path.stat().st_mode & 0o077 == 0
    assert SkillGraph.tenants(where) == ["team"]


def test_another_process_is_refused_and_what_a_killed_one_wrote_is_there(tmp_path: Path) -> None:
    where = f"duckdb://{tmp_path}/skills.duckdb"
    program = (
        "import os, signal, sys; from agentfw_memory import SkillGraph; "
        "graph = SkillGraph.open(sys.argv[1], tenant='team', embedder='hash'); "
        "graph.add(owner='ana', text='tea at noon'); print('written', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "written\n"

    with pytest.raises(StoreBusyError, match="open in another process"):
        SkillGraph.open(where, tenant="team")
    other.kill()
    other.communicate()

    with SkillGraph.open(where, tenant="team") as graph:
        assert [skill.text for skill in graph.skills(owner="ana")] == ["tea at noon"]


def test_a_scheme_that_no_store_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(StoreRefusedError, match="lancedb://") as refusal:
        SkillGraph.open("lancedb://somewhere", tenant="team")
    assert "duckdb://" in refusal.value.fix
