"""A file of a memory that others have changed does nothing but store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agentfw_memory import SkillGraph, StoreRefusedError


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("CREATE TRIGGER away AFTER INSERT ON node BEGIN DELETE FROM node; END", "trigger away"),
        ("CREATE VIEW more AS SELECT * FROM node", "view more"),
    ],
)
def test_a_file_with_triggers_or_views_is_refused(tmp_path: Path, sql: str, named: str) -> None:
    SkillGraph.open(tmp_path / "graph.db", tenant="t", embedder="hash:16").close()
    with closing(sqlite3.connect(tmp_path / "graph.db")) as connection:
        connection.execute(sql)

    with pytest.raises(StoreRefusedError, match=named):
        SkillGraph.open(tmp_path / "graph.db", tenant="t", embedder="hash:16")
