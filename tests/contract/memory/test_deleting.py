"""What is deleted is gone from everywhere, and nothing else is: rows, searches, files, and vectors still being made."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentfw_memory import BadInputError, GraphSettings, NewSkill, SkillGraph, Trajectory, UnknownSkillError

OpenGraph = Callable[..., SkillGraph]
RowsOf = Callable[[SkillGraph], list[dict[str, Any]]]
TOLD = {"id": "t1", "user": "ana", "query": "inimitable tea?", "outcome": "I prefer inimitable tea."}


def signs(texts: Sequence[str]) -> Any:
    """An embedder whose vectors can be found in a file: 64 numbers of 1/8 and -1/8, which only this text has."""
    bits = [np.unpackbits(np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], np.uint8)) for text in texts]
    return (np.array(bits, np.float32) - 0.5) / 4


def bytes_of(text: str) -> bytes:
    (vector,) = signs([text])
    return bytes(np.asarray(vector, "<f4").tobytes())


def everything(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))


def told(rows: list[dict[str, Any]]) -> dict[str, str]:
    """What is kept of each trajectory, by its id."""
    names = {row["number"]: row["name"] for row in rows if row["row"] == "node"}
    return {names[row["number"]]: row["query"] for row in rows if row["row"] == "trajectory"}


def test_erasing_empties_ones_own_trajectories_of_it_alone(where: str, open_graph: OpenGraph, rows_of: RowsOf) -> None:
    graph = open_graph(where)
    hers = graph.add(owner="ana", text="serve inimitable tea", visibility="shared").id
    his = graph.add(owner="ben", text="serve inimitable tea").id
    for user in ("ana", "ben"):
        for query in ("serve inimitable tea", "switch on the tea lamp"):
            graph.learn(Trajectory(f"{user}: {query[:5]}", user, query, skills=(hers, his)), 0.8)

    receipt = graph.delete(hers)

    assert told(rows_of(graph)) == {
        "ana: serve": "",
        "ana: switc": "switch on the tea lamp",
        "ben: serve": "serve inimitable tea",
        "ben: switc": "switch on the tea lamp",
    }
    assert (receipt.skills, receipt.trajectories) == (1, 1)
    assert (graph.get(his).text, graph.get(his).uses) == ("serve inimitable tea", 2)
    assert [hit.skill.id for hit in graph.recall("inimitable tea", user="ben")] == [his]
    assert graph.recall("inimitable tea", user="ana") == []


def test_who_is_forgotten_takes_along_only_what_is_theirs(where: str, open_graph: OpenGraph, rows_of: RowsOf) -> None:
    graph = open_graph(where)
    hers = graph.add(owner="ana", text="serve tea", tools=["samovar", "kettle"], visibility="shared").id
    his = graph.add(owner="ben", text="serve tea", tools=["kettle"], scenarios=["breakfast"], visibility="shared").id
    graph.connect(hers, "COMPLEMENTS", his)
    graph.set_profile("ana", "likes tea")
    graph.set_profile("ben", "likes lamps")
    for user, reward in (("ana", 0.2), ("ben", 0.6)):
        graph.learn(Trajectory(f"trip of {user}", user, f"query of {user}", skills=(hers, his)), reward)

    graph.prepare()
    receipt = graph.forget("ana")

    assert min(receipt.versions, receipt.vectors, receipt.edges, receipt.nodes, receipt.communities) > 0
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
    "retired and erased": lambda graph, skills: [*map(graph.retire, skills), graph.delete(*skills)],
    "changed": lambda graph, skills: [graph.update(one, text=f"zebra {one}") for one in skills],
}


@pytest.mark.parametrize("similarity", ["vectors", "words"])
def test_what_went_takes_no_place_among_the_best(
    way_of_searching: tuple[str, GraphSettings], open_graph: OpenGraph, similarity: Any
) -> None:
    where, chosen = way_of_searching
    alone: dict[str, Any] = {"neighbour_weight": 0.0, "user_weight": 0.0, "community_weight": 0.0}
    settings = replace(chosen, query_similarity=similarity, **alone)
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

    graph = open_graph(path, embedder=signs, settings=GraphSettings(query_similarity="vectors"))
    assert graph.recall("green tea 3", user="ana") == []
    best = graph.recall("red juice", user="ben", k=1)[0]
    assert best.skill.id == changed
    assert best.why.query == pytest.approx(1.0, abs=1e-5)
    assert bytes_of("black coffee") not in everything(folder)


READER = """
import sys
from agentfw_memory import SkillGraph
with SkillGraph.open(sys.argv[1], tenant="team") as graph:
    print(len(graph.recall("tea", user="ana")), flush=True)
    sys.stdin.readline()
    print([hit.skill.text for hit in graph.recall("tea", user="ana", k=9)], flush=True)
"""


def test_no_erased_word_is_left(graph: SkillGraph, open_graph: OpenGraph, rows_of: RowsOf, tmp_path: Path) -> None:
    folder, path = tmp_path, tmp_path / "skills.db"
    graph.add_all([NewSkill("ana", f"plain tea {place}") for place in range(20)])
    skill = graph.add(owner="ana", text="inimitable tea " * 200, tools=["inimitable pot"], scenarios=["meeting"])
    graph.prepare()
    graph.update(skill.id, text="plain again")
    assert b"inimit" in everything(folder)

    command = [sys.executable, "-c", READER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "5\n"
        receipt = graph.delete(skill.id)
        left = everything(folder)
        shown, _ = reader.communicate("go on\n")

    assert b"inimit" not in left
    assert "inimit" not in shown
    assert (receipt.skills, receipt.versions) == (1, 2)
    assert b"inimit" not in everything(folder), "what the other process saved when it closed"
    assert "inimit" not in str(rows_of(graph))
    assert len(graph.recall("tea", user="ana", k=99)) == len(graph.skills(owner="ana")) == 20


def test_what_told_it_and_what_said_the_same_go_too(open_graph: OpenGraph, tmp_path: Path) -> None:
    graph = open_graph(tmp_path / "skills.db", embedder=signs)
    first = graph.add(owner="ana", text="prefer inimitable tea")
    graph.retire(first.id)
    other = graph.add(owner="ana", text="Prefer inimitable tea!")
    graph.update(other.id, text="drink water")
    graph.learn({**TOLD, "id": "t0", "outcome": "The weather was fine.", "query": "weather"}, 0.9)
    (skill,) = (one for one in graph.learn(TOLD, 0.1).added if "tea" in graph.get(one).text)

    vector = bytes_of(graph.get(skill).text)
    assert vector in everything(tmp_path)

    receipt = graph.delete(skill)

    assert not any(part in everything(tmp_path) for part in (b"inimit", vector))
    assert receipt.trajectories == 1
    assert graph.get(other.id).text == "drink water"
    assert graph.history(other.id).versions[0].text == "drink water"
    assert graph.learn(TOLD, 0.1).known_already, "the trajectory itself stays known"
    with pytest.raises(UnknownSkillError):
        graph.history(first.id)
    graph.update(other.id, text="drink juice")
    assert [one.text for one in graph.history(other.id).versions] == ["drink water", "drink juice"]


def test_deleting_a_text_of_signs_deletes_no_other(graph: SkillGraph, rows_of: RowsOf) -> None:
    skill = graph.add(owner="ana", text="\U0001f600").id
    other = graph.add(owner="ana", text="!?").id
    graph.update(other, text="tea")
    for name, query in (("t1", "\U0001f600"), ("t2", "switch on the lamp")):
        graph.learn(Trajectory(name, "ana", query), 0.8)

    graph.delete(skill)

    assert told(rows_of(graph)) == {"t1": "", "t2": "switch on the lamp"}
    assert [one.text for one in graph.history(other).versions] == ["!?", "tea"]


def test_one_past_version_is_erased_and_the_others_stay(graph: SkillGraph, tmp_path: Path) -> None:
    skill = graph.add(owner="ana", text="call ana at 5551")
    graph.update(skill.id, text="call ana at inimitable 5552")
    graph.update(skill.id, text="call ana at 5553")

    with pytest.raises(BadInputError, match="version 2 is what the skill says now"):
        graph.delete(skill.id, version=2)
    receipt = graph.delete(skill.id, version=1)

    assert (receipt.skills, receipt.versions) == (0, 1)
    assert b"inimit" not in everything(tmp_path)
    kept = [(one.number, one.text) for one in graph.history(skill.id).versions]
    assert kept == [(0, "call ana at 5551"), (2, "call ana at 5553")]
    assert graph.delete(skill.id, version=1).versions == 0
    with pytest.raises(BadInputError, match="version 0 of 2 skills"):
        graph.delete(skill.id, "s1", version=0)


def test_deleting_twice_or_what_is_no_skill_deletes_nothing(graph: SkillGraph) -> None:
    skill = graph.add(owner="ben", text="ask first", tools=["mail"]).id
    kept = graph.add(owner="ben", text="Ask first!", tools=["mail"]).id
    edges = graph.admin.stats().edges

    with pytest.raises(UnknownSkillError):
        graph.delete("not an id")
    others = {f"s{number}" for number in range(1, 9)} - {skill, kept}  # also those of nodes that are no skills
    assert all(graph.delete(one).skills == 0 for one in others)
    assert graph.admin.stats().edges == edges
    assert [graph.delete(skill).skills for _ in range(2)] == [1, 0]
    assert graph.get(kept).tools == ("mail",)
