"""What is deleted is gone from everywhere, and nothing else is: rows, searches, files, and vectors still being made."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from agentfw_memory import GraphSettings, NewSkill, SkillGraph, Trajectory

OpenGraph = Callable[..., SkillGraph]
RowsOf = Callable[[SkillGraph], list[dict[str, Any]]]


def signs(texts: Sequence[str]) -> Any:
    """An embedder whose vectors can be found in a file: 64 numbers of 1/8 and -1/8, which only this text has."""
    bits = [np.unpackbits(np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], np.uint8)) for text in texts]
    return (np.array(bits, np.float32) - 0.5) / 4


def bytes_of(text: str) -> bytes:
    (vector,) = signs([text])
    return bytes(np.asarray(vector, "<f4").tobytes())


def everything(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))


def no_drafts(trajectory: Trajectory, maximum: int) -> list[Any]:
    return []


def told(rows: list[dict[str, Any]]) -> dict[str, str]:
    """What is kept of each trajectory, by its id."""
    names = {row["number"]: row["name"] for row in rows if row["row"] == "node"}
    return {names[row["number"]]: row["query"] for row in rows if row["row"] == "trajectory"}


def test_who_erases_a_skill_empties_their_own_trajectories_that_told_it_and_no_others(
    where: str, open_graph: OpenGraph, rows_of: RowsOf
) -> None:
    graph = open_graph(where, extractor=no_drafts)
    hers = graph.add(owner="ana", text="serve inimitable tea", visibility="shared").id
    his = graph.add(owner="ben", text="serve inimitable tea").id
    for user in ("ana", "ben"):
        for query in ("serve inimitable tea", "switch on the lamp"):
            graph.learn(Trajectory(f"{user}: {query[:5]}", user, query, skills=(hers, his)), 0.8)

    receipt = graph.delete(hers)

    assert told(rows_of(graph)) == {
        "ana: serve": "",
        "ana: switc": "switch on the lamp",
        "ben: serve": "serve inimitable tea",
        "ben: switc": "switch on the lamp",
    }
    assert (receipt.skills, receipt.trajectories) == (1, 1)
    assert (graph.get(his).text, graph.get(his).uses) == ("serve inimitable tea", 2)
    assert [hit.skill.id for hit in graph.recall("inimitable tea", user="ben")] == [his]
    assert graph.recall("inimitable tea", user="ana") == []


def test_who_is_forgotten_takes_along_what_is_theirs_and_nothing_of_others(
    where: str, open_graph: OpenGraph, rows_of: RowsOf
) -> None:
    graph = open_graph(where, extractor=no_drafts)
    hers = graph.add(owner="ana", text="serve tea", tools=["samovar", "kettle"], visibility="shared").id
    his = graph.add(owner="ben", text="serve tea", tools=["kettle"], scenarios=["breakfast"], visibility="shared").id
    graph.connect(hers, "COMPLEMENTS", his)
    graph.set_profile("ana", "likes tea")
    graph.set_profile("ben", "likes lamps")
    for user, reward in (("ana", 0.2), ("ben", 0.6)):
        graph.learn(Trajectory(f"trip of {user}", user, f"query of {user}", skills=(hers, his)), reward)

    receipt = graph.forget("ana")

    rows = rows_of(graph)
    assert told(rows) == {"trip of ben": "query of ben"}
    assert {row["name"] for row in rows if row["row"] == "node"} == {"ben", "trip of ben", "kettle", "breakfast"}
    assert [row["text"] for row in rows if row["row"] in ("version", "profile")] == ["serve tea", "likes lamps"]
    assert [graph.get(his).uses, graph.get(his).utility] == pytest.approx([1, 0.6])
    assert (receipt.skills, receipt.trajectories, graph.admin.owners()) == (1, 1, ["ben"])
    assert [hit.why.user for hit in graph.recall("tea", user="ana")] == [0.0], "a stranger, without a profile"


GOING: dict[str, Callable[[SkillGraph, list[str]], object]] = {
    "forgotten": lambda graph, skills: graph.forget("ana"),
    "erased": lambda graph, skills: graph.delete(*skills),
    "retired": lambda graph, skills: list(map(graph.retire, skills)),
    "changed": lambda graph, skills: [graph.update(one, text=f"zebra {one}") for one in skills],
}


@pytest.mark.parametrize("similarity", ["vectors", "words"])
def test_what_went_takes_no_place_among_the_best(
    way_of_searching: tuple[str, GraphSettings], open_graph: OpenGraph, similarity: Any
) -> None:
    where, chosen = way_of_searching
    settings = GraphSettings(
        query_similarity=similarity,
        in_memory_up_to=chosen.in_memory_up_to,
        neighbour_weight=0.0,
        user_weight=0.0,
        community_weight=0.0,
    )
    for way, go in GOING.items():
        if where.startswith("postgres") and way == "forgotten":
            continue  # takes seconds on a server, and deletes by the same statements
        graph, other = (open_graph(where, way, embedder="hash:256", settings=settings) for _ in range(2))
        graph.add_all(NewSkill("ana", f"green tea {place}", visibility="shared") for place in range(30))
        graph.add_all(NewSkill("ben", f"some tea with milk {place}", visibility="shared") for place in range(8))
        graph.prepare()
        skills = [one.id for one in graph.skills(owner="ana")]
        assert {hit.skill.owner for one in (graph, other) for hit in one.recall("green tea", user="cleo")} == {"ana"}

        go(graph, skills)

        for one in (graph, other, open_graph(where, way, embedder="", settings=settings)):
            hits = one.recall("green tea", user="cleo", k=5, at_least=0.0)
            assert [hit.skill.owner for hit in hits] == ["ben"] * 5, way


@pytest.mark.parametrize("way", ["forgotten", "erased"])
def test_no_vector_of_what_was_deleted_is_left_in_a_file(tmp_path: Path, open_graph: OpenGraph, way: str) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    with SkillGraph.open(folder / "skills.db", tenant="team", embedder=signs) as graph:
        graph.add_all(NewSkill("ana", f"green tea {place}", visibility="shared") for place in range(20))
        graph.add_all(NewSkill("ben", f"black coffee {place}", visibility="shared") for place in range(20))
        skills = [one.id for one in graph.skills(owner="ana")]
        graph.prepare()
        assert bytes_of("green tea 3") in (folder / "skills.db").read_bytes() + everything(folder)

        GOING[way](graph, skills)

        assert bytes_of("green tea 3") not in everything(folder)
        graph.prepare()
    left = everything(folder)
    assert [bytes_of(f"green tea {place}") in left for place in range(20)] == [False] * 20
    assert all(bytes_of(f"black coffee {place}") in left for place in range(20))


def test_vectors_that_are_being_made_anew_forget_too(tmp_path: Path, open_graph: OpenGraph) -> None:
    """`reembed` is interrupted after its first batch. Then one user goes, and a text of another changes."""

    def interrupted(done: int) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "store"
    folder.mkdir()
    path = folder / "skills.db"
    with SkillGraph.open(path, tenant="team", embedder="hash:16") as graph:
        graph.add_all(NewSkill("ana", f"green tea {place}") for place in range(5))
        graph.set_profile("ana", "likes tea")
        changed = graph.add(owner="ben", text="black coffee").id
        graph.add_all(NewSkill("ben", f"lamp {place}") for place in range(595))
    with pytest.raises(KeyboardInterrupt):
        SkillGraph.reembed(path, tenant="team", embedder=signs, progress=interrupted)
    assert bytes_of("green tea 3") in everything(folder), "the new vector waits beside the old one"

    with SkillGraph.open(path, tenant="team") as graph:
        graph.update(changed, text="red juice")
        graph.forget("ana")
        assert bytes_of("green tea 3") not in everything(folder)
    SkillGraph.reembed(path, tenant="team", embedder=signs)

    with SkillGraph.open(
        path, tenant="team", embedder=signs, settings=GraphSettings(query_similarity="vectors")
    ) as graph:
        assert graph.recall("green tea 3", user="ana") == []
        best = graph.recall("red juice", user="ben", k=1)[0]
        assert best.skill.id == changed
        assert best.why.query == pytest.approx(1.0, abs=1e-5)
    assert bytes_of("black coffee") not in everything(folder)


def fill(graph: SkillGraph) -> None:
    """A graph of three people; one of them, and all that is hers alone, is called unmistakable."""
    generator = random.Random(7)
    for place in range(120):
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
        fill(graph)
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
