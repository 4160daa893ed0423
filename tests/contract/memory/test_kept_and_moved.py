"""What is kept stays as it was told: after a restart and a kill, in an export, and when it comes from elsewhere."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from agentfw_memory import BadInputError, NewSkill, SkillGraph, Trajectory, read_memories

OpenGraph = Callable[..., SkillGraph]
RowsOf = Callable[[SkillGraph], list[dict[str, Any]]]
QUERIES = ("green tea", "where do I live?", "coffee", "lamp")


def clock() -> Callable[[], float]:
    """A minute later at each look."""
    return itertools.count(1_700_000_000.0, 60.0).__next__


def fill(graph: SkillGraph) -> dict[str, str]:
    graph.add_all(
        [
            NewSkill("ana", "serve green tea", ("kettle",), ("breakfast",), "private", 1_000.0, {"kind": "rule"}),
            NewSkill("ana", "black coffee", visibility="shared", expires_at=4e9),
            NewSkill("ben", "switch on the lamp", (), ("evening",), "shared", valid_from=2_000.0),
        ]
    )
    home = graph.add(owner="ana", text="I live in Berlin", valid_from=1_000.0)
    graph.update(home.id, text="I live in Hamburg", valid_from=2_000.0)
    ids = {one.text: one.id for owner in ("ana", "ben") for one in graph.skills(owner=owner)}
    graph.update(ids["serve green tea"], text="serve green tea with honey", valid_from=3_000.0)
    graph.retire(graph.add(owner="ben", text="buy candles").id)
    graph.set_profile("ben", "likes lamps")
    used = ids["black coffee"], ids["switch on the lamp"]
    graph.learn(Trajectory("t1", "ben", "coffee", ("evening",), skills=used, shown=used), 0.9)
    return ids


def seen(graph: SkillGraph) -> list[Any]:
    """All that a caller can ask for: skills, histories, recalls now and as of earlier, with their reasons."""
    skills = [one for owner in ("ana", "ben") for one in graph.skills(owner=owner)]
    asked: list[dict[str, Any]] = [{}, {"as_of": 1_500.0}, {"as_of": 2_500.0}, {"where": {"kind": "rule"}}]
    return [
        skills,
        [graph.history(one.id) for one in skills],
        [
            (user, hit.skill, round(hit.score, 5), hit.why.path)
            for user in ("ana", "ben", "cleo")
            for query in QUERIES
            for options in asked
            for hit in graph.recall(query, user=user, k=9, **options)
        ],
        graph.admin.owners(),
        graph.admin.stats().nodes,
        graph.admin.stats().edges,
    ]


def test_a_restart_finds_the_same(where: str, open_graph: OpenGraph, rows_of: RowsOf) -> None:
    with SkillGraph.open(where, tenant="team", embedder="hash:64", clock=clock()) as graph:
        fill(graph)
        before, rows = seen(graph), rows_of(graph)
        graph.prepare()

    again = open_graph(where, embedder="")

    assert seen(again) == before
    assert rows_of(again) == rows


def test_an_export_keeps_owners_dates_and_history_from_store_to_store(
    tmp_path: Path, postgres_database: Callable[[str], str], open_graph: OpenGraph, rows_of: RowsOf
) -> None:
    first = open_graph(tmp_path / "skills.db", clock=clock())
    fill(first)
    before, rows = seen(first), rows_of(first)
    on_server = open_graph(postgres_database("middle"))
    back = open_graph(tmp_path / "back.db", tenant="another")

    for source, target in ((first, on_server), (on_server, back)):
        source.admin.export_jsonl(tmp_path / "moved.jsonl")
        target.admin.import_jsonl(tmp_path / "moved.jsonl")
        assert rows_of(target) == rows
        assert seen(target) == before
    rule: dict[str, Any] = {"owner": "ana", "text": "serve green tea with honey", "metadata": {"kind": "rule"}}
    for again in (rule, {"owner": "ana", "text": "black coffee"}, {"owner": "ana", "text": "new"}):
        assert back.add(**again).id == first.add(**again).id, "what is there is known, and ids go on"


# Several processes on one store, some of them killed: nothing acknowledged is lost, and nothing is there twice

WRITER = """
import sys
from agentfw_memory import SkillGraph
path, name = sys.argv[1:]
with SkillGraph.open(path, tenant="team", embedder="hash:16") as graph:
    for number in range(1000):
        skill = graph.add(owner=name, text=f"{name} knows {number}", tools=["calendar"], visibility="shared")
        print(number, skill.id, flush=True)
        if number % 5 == 0:
            graph.learn({"id": f"{name} {number}", "user": name, "query": "q", "skills": [skill.id]}, 0.9)
        if number % 7 == 0:
            graph.recall(f"knows {number}", user=name)
"""


def lines(told: str) -> Iterator[tuple[int, str]]:
    """What was acknowledged; a line that broke off wasn't."""
    for line in told.splitlines(keepends=True):
        if line.endswith("\n"):
            number, skill = line.split()
            yield int(number), skill


def test_processes_that_write_at_once_and_are_killed_lose_nothing(where: str) -> None:
    generator, names, acknowledged = random.Random(7), ("ana", "ben"), dict[tuple[str, int], str]()
    commands = [[sys.executable, "-c", WRITER, where, name] for name in names]
    writers = [subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True) for command in commands]
    first = ["".join(islice(writer.stdout, 8)) for writer in writers if writer.stdout is not None]
    time.sleep(generator.random() / 2)
    for name, began, writer in zip(names, first, writers, strict=True):
        time.sleep(generator.random() / 5)
        writer.kill()
        told, complaints = writer.communicate()
        assert "locked" not in complaints
        acknowledged |= {(name, number): skill for number, skill in lines(began + told)}
    assert len(acknowledged) > len(names)
    with SkillGraph.open(where, tenant="team") as graph:
        assert all(graph.get(skill).text == f"{name} knows {n}" for (name, n), skill in acknowledged.items())
        again = {(name, n): graph.add(owner=name, text=f"{name} knows {n}").id for name, n in acknowledged}
        assert again == acknowledged, "the same text again is the same skill"
        kept = [skill for name in names for skill in graph.skills(owner=name)]
        assert len({skill.text for skill in kept}) == len(kept)
        found = {hit.skill.id for hit in graph.recall("knows", user="ana", k=len(kept), at_least=0)}
        assert found == {skill.id for skill in kept}


ELSEWHERE = """
import sys
from agentfw_memory import SkillGraph
with SkillGraph.open(sys.argv[1], tenant="t", embedder="hash") as graph:
    graph.add(owner="ben", text=sys.argv[2])
    print(graph.admin.stats().nodes["skill"])
"""


def skills_after_adding_elsewhere(path: Path, text: str) -> int:
    return int(subprocess.run([sys.executable, "-c", ELSEWHERE, path, text], check=True, stdout=PIPE).stdout)


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


# Memories from elsewhere: mem0, LangMem and plain JSON become skills, and a broken record imports nothing

MEM0 = """{"results": [
  {"id": "8f3a", "memory": "Prefers green tea", "user_id": "ana", "created_at": "2024-05-07T10:00:00+00:00",
   "categories": ["drinks"]},
  {"id": "8f3b", "memory": "Answers in short sentences", "agent_id": "helper", "metadata": null},
  {"id": "8f3c", "memory": "Parks at P3", "user_id": "ana", "agent_id": "helper", "hash": "c0ffee",
   "metadata": {"source": "chat", "tags": ["car"]}, "expiration_date": "2099-01-01"}
]}"""
DENTIST: dict[str, Any] = {"kind": "Memory", "content": {"content": "Her dentist is called Keller"}}
LANGMEM: list[dict[str, Any]] = [
    {"namespace": ["memories", "ana"], "key": "1", "value": DENTIST, "created_at": "2024-05-07T10:00:00Z"},
    {"namespace": ["memories"], "key": "2", "value": {"size": 3}},
]
MAY_7 = 1715076000.0


def test_an_export_of_mem0_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mem0.json"
    path.write_text(MEM0)
    kept = {"source": "chat", "tags": ["car"], "id": "8f3c", "agent_id": "helper"}

    assert read_memories(path) == [
        NewSkill("ana", "Prefers green tea", (), ("drinks",), valid_from=MAY_7, metadata={"id": "8f3a"}),
        NewSkill("helper", "Answers in short sentences", metadata={"id": "8f3b"}),
        NewSkill("ana", "Parks at P3", metadata=kept, expires_at=4070908800.0),
    ]


def test_items_of_langmem_are_read(tmp_path: Path) -> None:
    path = tmp_path / "items.json"
    path.write_text("\n".join(map(json.dumps, LANGMEM)))
    dentist, size = ({"key": item["key"], "value": item["value"]} for item in LANGMEM)

    assert read_memories(path) == [
        NewSkill("memories/ana", DENTIST["content"]["content"], (), ("key 1",), valid_from=MAY_7, metadata=dentist),
        NewSkill("memories", '{"size": 3}', (), ("key 2",), metadata=size),
    ]


def test_plain_records_are_read_and_can_be_imported_twice(
    graph: SkillGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plain.jsonl"
    never_move = {"text": "Never move lunch", "owner": "ben", "tools": ["calendar"], "scenarios": ["lunch"]}
    mornings_are = {"text": "Mornings\u2028are best", "shared": "no", "valid_from": "2023-11-14T22:13:20"}
    records = [never_move | {"shared": True}, mornings_are]
    path.write_text("".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in records), "utf-8")

    with monkeypatch.context() as elsewhere:  # a time without a zone is UTC wherever it is read
        elsewhere.setenv("TZ", "America/New_York")
        time.tzset()
        found = read_memories(path, owner="ana")
    time.tzset()
    for _ in range(2):
        graph.add_all(found)

    (never,) = graph.skills(owner="ben")
    (mornings,) = graph.skills(owner="ana")
    assert (never.text, never.visibility) == ("Never move lunch", "shared")
    assert (never.tools, never.scenarios) == (("calendar",), ("lunch",))
    assert (mornings.visibility, mornings.valid_from) == ("private", 1_700_000_000)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": "broken', "line 2 is not valid JSON"),
        ('{"text": "käse", "owner": "ana"}', "is not UTF-8 text"),
        ('{"content": "x"}', "line 2: a record needs text"),
        ('{"text": "x"}', "line 2: it names no owner"),
        ('{"text": " ", "owner": "ana"}', "line 2: the text ' ' is not"),
        ('{"text": "x", "owner": "ana", "valid_from": "soon"}', "line 2: 'soon' is not a time"),
        ('{"text": "x", "owner": "ana", "tools": "calendar"}', "line 2: 'calendar' is not a list"),
    ],
)
def test_a_broken_record_is_named_and_nothing_is_imported(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "memories.jsonl"
    path.write_text('{"text": "fine", "owner": "ana"}\n' + line + "\n", "latin-1")

    with pytest.raises(BadInputError, match=problem.replace("[", r"\[")):
        read_memories(path)
