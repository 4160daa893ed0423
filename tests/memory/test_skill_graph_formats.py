"""Stores that an earlier version wrote: they open, and say what was migrated. `tests/data/skill-graph` keeps one of
each format."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agentfw_memory import NewSkill, SkillGraph, StorageError, StoreRefusedError
from agentfw_memory.graph.stores import sqlite_file

KEPT = Path(__file__).parents[1] / "data" / "skill-graph"
TRIP = {"id": "t1", "user": "ana", "query": "move it", "scenarios": ["meeting"], "outcome": "I prefer mornings."}


def check(graph: SkillGraph) -> None:
    """What was written is there, with its history, and the graph goes on."""
    assert [version.text for version in graph.history("s4").versions] == [
        "Offer the earliest slot first",
        "Offer the latest slot first",
    ]
    assert {hit.skill.owner for hit in graph.recall("which slot?", user="ana", k=9)} == {"ana", "ben"}
    assert graph.learn(TRIP, 0.9).known_already
    assert graph.add_skill(owner="ana", text="Ask before a dinner").id not in {"s4", "s6"}
    assert graph.forget("ana").trajectories == 1


def test_a_file_of_the_first_format_is_migrated_once_and_a_copy_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, copy = tmp_path / "skills.db", tmp_path / "skills.db.format-1"
    shutil.copy(KEPT / "format-1.db", path)

    with SkillGraph.open(path, tenant="team") as graph:
        graph.add_skill(owner="ben", text="new", metadata={"kind": "note"})
    with SkillGraph.open(path, tenant="team") as graph:
        assert [skill.text for skill in graph.skills(owner="ben", where={"kind": "note"})] == ["new"]
        (told,) = [record.getMessage() for record in caplog.records]
        assert "migrated from format 1 to 2" in told
        assert str(copy) in told
        assert copy.stat().st_mode & 0o077 == 0
        with closing(sqlite3.connect(copy)) as kept:
            assert kept.execute("PRAGMA user_version").fetchone() == (1,)
            assert kept.execute("SELECT count(*) FROM version").fetchone() == (5,)
        check(graph)  # which forgets a user
    assert not copy.exists(), "it held what was forgotten"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["skills.db"]


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "skills.db"
    shutil.copy(KEPT / "format-1.db", path)
    monkeypatch.setitem(sqlite_file.MIGRATIONS, 1, sqlite_file.MIGRATIONS[1] + "CREATE TABLE live (no INTEGER);")

    with pytest.raises(StorageError):
        SkillGraph.open(path, tenant="team")
    monkeypatch.undo()

    with SkillGraph.open(path, tenant="team") as graph:
        check(graph)


@pytest.mark.slow
def test_several_processes_that_open_an_old_file_migrate_it_once(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    shutil.copy(KEPT / "format-1.db", path)
    opener = "import sys; from agentfw_memory import SkillGraph; SkillGraph.open(sys.argv[1], tenant='team').close()"

    processes = [
        subprocess.Popen([sys.executable, "-c", opener, str(path)], stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    told = "".join(process.communicate()[1] for process in processes)

    assert [process.returncode for process in processes] == [0] * 4
    assert told.count("migrated from format 1 to 2") == 1
    with closing(sqlite3.connect(f"{path}.format-1")) as kept:
        assert kept.execute("PRAGMA user_version").fetchone() == (1,)


def test_a_damaged_file_is_told_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    with SkillGraph.open(path, tenant="team", embedder="hash") as graph:
        graph.add_skills(NewSkill("ana", f"way {place} " * 50) for place in range(300))
    pages = bytearray(path.read_bytes())
    for page in range(5, len(pages) // 4096):
        pages[page * 4096 : page * 4096 + 16] = b"\xff" * 16
    path.write_bytes(pages)

    with (
        pytest.raises(StorageError, match=r"skills.db is damaged: .*malformed") as told,
        SkillGraph.open(path, tenant="team") as graph,
    ):
        graph.recall("way", user="ana")
    assert "restore a backup" in told.value.fix


def test_an_export_of_the_first_format_is_imported(tmp_path: Path) -> None:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash") as graph:
        skill = graph.add_skill(owner="ana", text="Ask first")
        graph.export_jsonl(tmp_path / "new.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text().splitlines()]
    rows[0] = {"format": "agentfw skill graph 1"}
    for row in rows:
        row.pop("metadata", None)
        row.pop("expires_at", None)
    (tmp_path / "old.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    with SkillGraph.open(":memory:", tenant="team", embedder="hash") as graph:
        graph.import_jsonl(tmp_path / "old.jsonl")

        assert graph.skill(skill.id).text == "Ask first"
        assert graph.add_skill(owner="ana", text="Ask first").id == skill.id


def test_a_database_of_the_first_format_is_migrated_and_says_so(
    postgres_database: Callable[..., str], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    psycopg = pytest.importorskip("psycopg")
    url = postgres_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute((KEPT / "format-1.sql").read_text())
    with SkillGraph.open(url, tenant="team") as graph:
        told = [record.getMessage() for record in caplog.records]
        assert ["migrated from format 1 to 2" in told[0], "migrated from format 2 to 3" in told[1]] == [True, True]
        graph.export_jsonl(tmp_path / "migrated.jsonl")
    shutil.copy(KEPT / "format-1.db", tmp_path / "skills.db")
    with SkillGraph.open(tmp_path / "skills.db", tenant="team") as file:
        file.export_jsonl(tmp_path / "file.jsonl")
    assert (tmp_path / "migrated.jsonl").read_text() == (tmp_path / "file.jsonl").read_text()
    caplog.clear()
    with SkillGraph.open(url, tenant="team") as graph:
        assert not caplog.records
        graph.prepare()
        check(graph)


def test_a_database_of_a_newer_format_is_refused_by_its_number(postgres_database: Callable[..., str]) -> None:
    psycopg = pytest.importorskip("psycopg")
    url = postgres_database()
    SkillGraph.open(url, tenant="team", embedder="hash:4").close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE skillgraph.format SET version = version + 1")
    with pytest.raises(StoreRefusedError, match=r"newer agentfw .format 4, this version reads 3"):
        SkillGraph.open(url, tenant="team")
