"""The store passes the contract of stores, and is empty of who was forgotten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from agentfw_memory import NewSkill, SkillGraph
from agentfw_memory.testing import StoreContract

pytest.importorskip("duckdb")
pytest.importorskip("igraph")


@pytest.fixture(autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip writes of an entry point, so that the scheme is found in a checkout, too."""
    about = tmp_path_factory.mktemp("site") / "agentfw_duckdb-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.4\nName: agentfw-duckdb\nVersion: 0.1.0\n", "utf-8")
    store = "[agentfw_memory.stores]\nduckdb = agentfw_duckdb.store:DuckdbStore\n"
    (about / "entry_points.txt").write_text(store, "utf-8")
    monkeypatch.syspath_prepend(about.parent)


class TestDuckdbStore(StoreContract):
    writes_while_read = False

    @pytest.fixture
    def address(self, tmp_path: Path) -> Callable[[str], str]:
        return lambda place: f"duckdb://{tmp_path}/{place}.duckdb"


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
    assert SkillGraph.tenants(where) == ["team"]
