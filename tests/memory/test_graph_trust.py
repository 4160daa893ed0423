"""The terms of the graph count only as far as what people did after they were known shows that they help."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentfw_memory import GraphSettings, NewSkill, SkillGraph

WEIGHTS = {"user": "user_weight", "community": "community_weight"}


@pytest.fixture
def graph() -> Iterator[SkillGraph]:
    with SkillGraph.open(":memory:", tenant="team", embedder="hash:64") as opened:
        yield opened


def trust(graph: SkillGraph, users: int) -> dict[str, float]:
    """Return the share of its weight that each term has added to a hit."""
    found = dict.fromkeys(WEIGHTS, 0.0)
    for place in range(40):
        for hit in graph.recall(f"way {place} of many", user=f"user{place % users}", k=10):
            for name, weight in WEIGHTS.items():
                if getattr(hit.why, name) > 0.0:
                    whole = getattr(GraphSettings(), weight) * getattr(hit.why, name)
                    found[name] = max(found[name], hit.why.points[name] / whole)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_rewards_make_no_term_of_the_graph_trusted(graph: SkillGraph, seed: int) -> None:
    draw, users = random.Random(seed), 10
    skills = graph.add_all(
        NewSkill(f"user{place % users}", f"way {place} of {draw.choice(('many', 'some'))}", visibility="shared")
        for place in range(60)
    )
    for place in range(120):
        used = [one.id for one in draw.sample(skills, 2)]
        trip = {"id": f"t{place}", "user": f"user{draw.randrange(users)}", "query": "which way?", "skills": used}
        graph.learn(trip, draw.random())

    assert max(trust(graph, users).values()) < 0.1


def test_rewards_make_a_term_trusted_where_texts_alone_do_not(graph: SkillGraph) -> None:
    # Texts are noise. Two circles of people succeed with the skills of their own circle only.
    draw, users = random.Random(5), 12
    skills = graph.add_all(
        NewSkill(f"user{place % users}", f"way {place} of w{draw.randrange(10**9)}", visibility="shared")
        for place in range(60)
    )
    for place in range(240):
        user, skill = draw.randrange(users), draw.choice(skills)
        reward = 0.9 if user % 2 == int(skill.owner[4:]) % 2 else 0.1
        graph.learn({"id": f"t{place}", "user": f"user{user}", "query": "q", "skills": [skill.id]}, reward)
    graph.prepare()

    assert trust(graph, users)["community"] > 0.7


def forum(seed: int) -> list[Any]:
    """A forum as those of Stack Exchange are: tags with words of their own, and askers who come back to two of them.

    Some have an eye for good answers and some don't, and an answer has words of its question by chance.
    """
    program = importlib.import_module("cases")
    draw, tags = random.Random(seed), [f"tag{place}" for place in range(12)]
    words = {tag: [f"{tag}w{place}" for place in range(25)] for tag in tags}
    askers = {f"asker{place}": draw.sample(tags, 2) for place in range(25)}
    writers = {f"writer{place}": draw.sample(tags, 3) for place in range(12)}
    questions = []
    for place in range(150):
        asker = draw.choice(list(askers))
        tag = draw.choice(askers[asker])
        title = draw.sample(words[tag], 5)
        able = [one for one, known in writers.items() if tag in known] or list(writers)
        replies = [
            program.Reply(
                draw.choice(able),
                " ".join([*draw.sample(title, 2), *draw.choices(words[tag], k=12), f"only{place}n{number}"]),
                draw.choice((0.0, 0.1, 0.3, 1.0)),
            )
            for number in range(draw.randrange(1, 4))
        ]
        questions.append(program.Question(asker, " ".join(title), (tag,), 1e9 + 9e4 * place, replies))
    return questions


@pytest.mark.slow
def test_learning_the_earlier_part_of_a_forum_never_finds_less_in_the_later_part() -> None:
    found = importlib.import_module("cases").forum(forum(0), "hash")

    everybody = found["groups"]["all"]
    assert everybody["questions"] == 60
    assert 0.2 < everybody["without"]["mean"] < 0.95
    assert everybody["after - without"]["mean"] >= -0.005
    assert everybody["after - before"]["mean"] >= -0.005


def test_a_dump_of_a_forum_is_read_and_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ['<?xml version="1.0" encoding="utf-8"?>', "<posts>"]
    for place in range(10):
        day, title = f"2024-01-{place + 1:02}T10:00:00.000", f"How cold is pilsner {place}?"
        rows += [
            f'<row Id="{2 * place + 1}" PostTypeId="1" OwnerUserId="{place % 3}" AcceptedAnswerId="{2 * place + 2}" '
            f'CreationDate="{day}" Title="{title}" Tags="&lt;beer&gt;&lt;cold&gt;" Body="hm" Score="1"/>',
            f'<row Id="{2 * place + 2}" PostTypeId="2" ParentId="{2 * place + 1}" OwnerUserId="9" CreationDate="{day}" '
            f'Body="&lt;p&gt;Pilsner {place} is best at {place} degrees.&lt;/p&gt;" Score="4"/>',
        ]
    path = tmp_path / "Posts.xml"
    path.write_text("\n".join([*rows, "</posts>"]))

    result = importlib.import_module("cases").main(["--posts", str(path), "--embedder", "hash"])

    assert (result["questions"], result["replies"]) == (10, 10)
    assert result["groups"]["all"]["after"]["mean"] == 1.0
    assert "after - without" in capsys.readouterr().out
