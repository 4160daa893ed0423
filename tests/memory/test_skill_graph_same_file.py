"""Several graphs on one file, in this process and in another one."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("igraph")

from agentfw_memory import SkillGraph, StoreRefusedError

ELSEWHERE = """
import sys
from agentfw_memory import SkillGraph
with SkillGraph.open(sys.argv[1], tenant="t", embedder="hash") as graph:
    graph.add(owner="ben", text=sys.argv[2])
    print(graph.admin.stats().nodes["skill"])
"""


def skills_after_adding_elsewhere(path: Path, text: str) -> int:
    return int(subprocess.run([sys.executable, "-c", ELSEWHERE, path, text], check=True, stdout=subprocess.PIPE).stdout)


@pytest.mark.nightly
def test_what_is_added_is_on_disk_although_the_file_is_opened_twice_here(tmp_path: Path) -> None:
    """Another process that closes it would remove what SQLite writes to, if this one had lost its locks."""
    path = tmp_path / "graph.db"
    with (
        SkillGraph.open(path, tenant="t", embedder="hash") as first,
        SkillGraph.open(path, tenant="t", embedder="hash"),
    ):
        first.add(owner="ana", text="Likes tea")
        assert skills_after_adding_elsewhere(path, "Travels by train") == 2
        first.add(owner="ana", text="Lives in Berlin")
        assert skills_after_adding_elsewhere(path, "Gets up at six") == 4


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("CREATE TRIGGER away AFTER INSERT ON version BEGIN DELETE FROM live; END", "trigger away"),
        ("CREATE VIEW more AS SELECT * FROM node", "view more"),
    ],
)
def test_a_file_with_triggers_or_views_is_refused(tmp_path: Path, sql: str, named: str) -> None:
    SkillGraph.open(tmp_path / "graph.db", tenant="t", embedder="hash:16").close()
    with closing(sqlite3.connect(tmp_path / "graph.db")) as connection:
        connection.execute(sql)

    with pytest.raises(StoreRefusedError, match=named):
        SkillGraph.open(tmp_path / "graph.db", tenant="t", embedder="hash:16")
