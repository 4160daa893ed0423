"""Whether a graph that has learned what helped in a forum finds the later answers better or worse.

    curl -LO https://archive.org/download/stackexchange/beer.stackexchange.com.7z && 7z x beer.stackexchange.com.7z
    python benchmarks/learned_forum.py --posts Posts.xml
    python benchmarks/learned_forum.py --posts Posts.xml --embedder wordllama --json

`Posts.xml` is from a dump of any Stack Exchange (CC BY-SA). Each answer is a shared skill of its writer, with the tags
of its question as scenarios. The graph learns the earlier 60% of the questions as their askers' trajectories, one for
each answer: 1 for an accepted answer, less for others by their votes. Then the titles of the later 40% are recalled for
their askers, before and after learning, and after learning without the terms of the graph. MRR is the mean of the
reciprocal rank of the first hit among ten that answers the question. `known` are the askers who learned something.

The figures that are to hold: after learning not lower than before, nor than without these terms, by more than 0.005.
"""

from __future__ import annotations

import html
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from agentfw_benchmarks import Options, difference_of, mean_of, print_aligned, shown, tell
from agentfw_memory import GraphSettings, NewSkill, SkillGraph

K, EARLIER = 10, 0.6
GRAPH = ("user_weight", "community_weight", "complement_boost", "conflict_weight")
WITHOUT = replace(GraphSettings(), **dict.fromkeys(GRAPH, 0.0))  # type: ignore[arg-type]
LONGEST = 5_000


@dataclass(frozen=True)
class Reply:
    author: str
    text: str
    reward: float


@dataclass(frozen=True)
class Question:
    asker: str
    title: str
    tags: tuple[str, ...]
    at: float
    replies: list[Reply] = field(default_factory=list)


def questions_of(posts: Path) -> list[Question]:
    """Return the questions of a dump that somebody with a name asked and answered, oldest first."""
    asked: dict[str, tuple[Question, str]] = {}
    votes: list[tuple[str, str, str, str, int]] = []
    for row in _rows(posts):
        owner = row.get("OwnerUserId")
        if owner is None:
            continue
        text = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", row.get("Body", ""))).split())[:LONGEST]
        if row["PostTypeId"] == "1":
            tags = tuple(re.findall(r"[^<>|]+", row.get("Tags", "")))
            at = datetime.fromisoformat(row["CreationDate"]).replace(tzinfo=UTC).timestamp()
            asked[row["Id"]] = Question(f"u{owner}", row["Title"], tags, at), row.get("AcceptedAnswerId", "")
        elif row["PostTypeId"] == "2" and text:
            votes.append((row["ParentId"], row["Id"], f"u{owner}", text, int(row["Score"])))
    for parent, own, author, text, score in votes:
        if parent in asked:
            question, accepted = asked[parent]
            question.replies.append(Reply(author, text, 1.0 if own == accepted else min(max(score, 0), 8) / 10))
    return sorted((one for one, _ in asked.values() if one.replies), key=lambda one: one.at)


def _rows(posts: Path) -> Iterator[dict[str, str]]:
    for _, element in ElementTree.iterparse(posts):
        if element.tag == "row":
            yield dict(element.attrib)
            element.clear()


def measure(questions: Sequence[Question], embedder: str = "") -> dict[str, Any]:
    """Recall the later questions before and after the earlier ones were learned."""
    earlier, later = questions[: (cut := int(EARLIER * len(questions)))], questions[cut:]
    known = {one.asker for one in earlier}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "forum.db"
        with SkillGraph.open(path, tenant="forum", embedder=embedder) as graph:
            replies = [(place, reply) for place, one in enumerate(questions) for reply in one.replies]
            skills = graph.add_all(
                NewSkill(reply.author, reply.text, (), questions[place].tags, "shared", questions[place].at)
                for place, reply in replies
            )
            answers: list[list[str]] = [[] for _ in questions]
            for (place, _), skill in zip(replies, skills, strict=True):
                answers[place].append(skill.id)
            before = _ranks(graph, later, answers[cut:])
            for place, question in enumerate(earlier):
                for number, (skill_id, reply) in enumerate(zip(answers[place], question.replies, strict=True)):
                    trip = {"id": f"{place}/{number}", "user": question.asker, "query": question.title}
                    graph.learn({**trip, "scenarios": question.tags, "skills": [skill_id]}, reply.reward)
            after = _ranks(graph, later, answers[cut:])
        with SkillGraph.open(path, tenant="forum", settings=WITHOUT) as graph:
            without = _ranks(graph, later, answers[cut:])
    result: dict[str, Any] = {"questions": len(questions), "replies": len(replies), "groups": {}}
    for name, some in (("all", [True] * len(later)), ("known", [one.asker in known for one in later])):
        chosen = [place for place, counts in enumerate(some) if counts]
        if chosen:
            sides = [[side[place] for place in chosen] for side in (before, after, without)]
            result["groups"][name] = {
                "questions": len(chosen),
                **dict(zip(("before", "after", "without"), map(mean_of, sides), strict=True)),
                "after - before": difference_of(sides[1], sides[0]),
                "after - without": difference_of(sides[1], sides[2]),
            }
    return result


def _ranks(graph: SkillGraph, questions: Sequence[Question], answers: Sequence[Sequence[str]]) -> list[float]:
    """Return the reciprocal rank of the first answer to each question, or 0 if it isn't among the first ten."""
    found = []
    for question, right in zip(questions, answers, strict=True):
        hits = graph.recall(question.title, user=question.asker, k=K)
        found.append(next((1.0 / rank for rank, hit in enumerate(hits, 1) if hit.skill.id in right), 0.0))
    return found


def show(result: dict[str, Any]) -> None:
    columns = ("before", "after", "without", "after - before", "after - without")
    rows = [
        [name, str(group["questions"]), *(shown(group[column]) for column in columns)]
        for name, group in result["groups"].items()
    ]
    print_aligned(["MRR", "questions", *columns], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, posts=Path, embedder="").parse_args(arguments)
    return tell(measure(questions_of(options.posts), options.embedder), options.json, show)


if __name__ == "__main__":
    main()
