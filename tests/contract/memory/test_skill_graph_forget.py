"""Who is forgotten leaves no byte: not in the file, its log, or what an export has."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Literal

import pytest

from agentfw_memory import SkillGraph, Trajectory

pytest.importorskip("igraph")


def everything(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))


def fill(graph: SkillGraph, *, seed: int, count: int = 120) -> None:
    """A graph of three people; one of them, and all that is hers alone, is called unmistakable."""
    generator = random.Random(seed)
    for place in range(count):
        owner = generator.choice(["unmistakable-ana", "ben", "cleo"])
        mark = "unmistakable" if owner == "unmistakable-ana" else "plain"
        text = f"{mark}-{place} " + f"{mark} " * generator.choice([1, 5, 30, 200, 1000])
        visibility: Literal["private", "shared"] = generator.choice(["private", "shared"])
        skill = graph.add(
            owner=owner, text=text, tools=[f"{mark}-tool", "calendar"], scenarios=["meeting"], visibility=visibility
        )
        if generator.random() < 0.3:
            graph.update(skill.id, text=f"{mark}-{place} changed {text[:50]}")
        if generator.random() < 0.1:
            graph.retire(skill.id)
        if generator.random() < 0.2:
            outcome = f"{mark} wants tea with {mark}."
            graph.learn(Trajectory(f"{mark} trip {place}", owner, f"{mark} query", ("meeting",), (), outcome), 0.9)
    graph.set_profile("unmistakable-ana", "unmistakable taste")
    graph.recall("meeting", user="ben")


@pytest.mark.slow
def test_no_byte_is_left_and_the_receipt_says_what_went(tmp_path: Path) -> None:
    with SkillGraph.open(tmp_path / "skills.db", tenant="team", embedder="hash:32") as graph:
        fill(graph, seed=7)
        graph.prepare()
        assert b"unmistakable" in everything(tmp_path)
        before = graph.admin.stats()
        receipt = graph.forget("unmistakable-ana")
        assert b"unmistak" not in everything(tmp_path)
        after = graph.admin.stats()
        assert receipt.user == "unmistakable-ana"
        assert after.nodes["trajectory"] == before.nodes["trajectory"] - receipt.trajectories
        assert after.nodes["user"] == before.nodes["user"] - 1
        assert min(receipt.skills, receipt.versions, receipt.vectors, receipt.edges, receipt.trajectories) > 0
        assert receipt.communities == 1
        hits = graph.recall("unmistakable", user="ben", k=50)
        assert {hit.skill.owner for hit in hits} <= {"ben", "cleo"}
        assert graph.recall("unmistakable", user="unmistakable-ana", at_least=0.0)  # a stranger now: what is shared
        assert graph.forget("unmistakable-ana").skills == 0
    assert b"unmistakable" not in everything(tmp_path)


def wear(graph: SkillGraph, generator: random.Random) -> None:
    """Write, change and take away texts of all lengths, so that rows are moved between the pages of the file."""
    owned: list[tuple[str, str]] = []
    for place in range(generator.randint(5, 150)):
        owner = generator.choice(["unmistakable-ana", "ben", "cleo"])
        mark = "unmistakable" if owner == "unmistakable-ana" else "plain"
        text = f"{mark}{place} " + f"{mark} " * generator.choice([1, 5, 30, 200, 1500])
        skill = graph.add(owner=owner, text=text, tools=[f"{mark}-tool", "t"], scenarios=[f"{mark}{place % 5}"])
        owned.append((mark, skill.id))
        if generator.random() < 0.4:
            mark, changed = generator.choice(owned)
            graph.update(changed, text=f"{mark}{place} new " + f"{mark} " * generator.choice([1, 50, 900]))
        if generator.random() < 0.05:
            graph.retire(owned.pop(generator.randrange(len(owned)))[1])


def test_no_byte_is_left_where_rows_were_moved_about(tmp_path: Path) -> None:
    # Seed 4 leaves something behind unless the file is written anew.
    with SkillGraph.open(tmp_path / "skills.db", tenant="team", embedder="hash:64") as graph:
        wear(graph, random.Random(4))
        graph.forget("unmistakable-ana")
        assert b"unmistakable" not in everything(tmp_path)
