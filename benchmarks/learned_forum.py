"""Whether a graph that has learned what helped in a forum finds the later answers better or worse.

    curl -LO https://archive.org/download/stackexchange/beer.stackexchange.com.7z && 7z x beer.stackexchange.com.7z
    python benchmarks/learned_forum.py --posts Posts.xml

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
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from agentfw_benchmarks import Options, difference_of, mean_of, print_aligned, shown, tell
from agentfw_memory import GraphSettings, NewSkill, SkillGraph

WITHOUT = replace(GraphSettings(), user_weight=0.0, community_weight=0.0, complement_boost=0.0, conflict_weight=0.0)


class Reply(NamedTuple):
    author: str
    text: str
    reward: float


class Question(NamedTuple):
    asker: str
    title: str
    tags: tuple[str, ...]
    at: float
    replies: list[Reply]


def questions_of(posts: Path) -> list[Question]:
    """Return the questions of a dump that somebody with a name asked and answered, oldest first."""
    asked: dict[str, tuple[Question, str]] = {}
    answers = []
    for _, element in ElementTree.iterparse(posts):
        row = dict(element.attrib)
        element.clear()
        if "OwnerUserId" not in row:
            continue
        owner = f"u{row['OwnerUserId']}"
        if row["PostTypeId"] == "1":
            tags = tuple(re.findall(r"[^<>|]+", row.get("Tags", "")))
            at = datetime.fromisoformat(row["CreationDate"]).replace(tzinfo=UTC).timestamp()
            asked[row["Id"]] = Question(owner, row["Title"], tags, at, []), row.get("AcceptedAnswerId", "")
        elif row["PostTypeId"] == "2":
            answers.append((owner, row))
    for owner, row in answers:
        text = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", row.get("Body", ""))).split())[:5_000]
        if text and row["ParentId"] in asked:
            question, accepted = asked[row["ParentId"]]
            reward = 1.0 if row["Id"] == accepted else min(max(int(row["Score"]), 0), 8) / 10
            question.replies.append(Reply(owner, text, reward))
    return sorted((one for one, _ in asked.values() if one.replies), key=lambda one: one.at)


def measure(questions: Sequence[Question], embedder: str = "") -> dict[str, Any]:
    """Recall the later questions before and after the earlier ones were learned."""
    cut = int(0.6 * len(questions))
    earlier, later = questions[:cut], questions[cut:]
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
            sides = {"before": _ranks(graph, later, answers[cut:])}
            for place, question in enumerate(earlier):
                for number, (skill_id, reply) in enumerate(zip(answers[place], question.replies, strict=True)):
                    trip = {"id": f"{place}/{number}", "user": question.asker, "query": question.title}
                    graph.learn({**trip, "scenarios": question.tags, "skills": [skill_id]}, reply.reward)
            sides["after"] = _ranks(graph, later, answers[cut:])
        with SkillGraph.open(path, tenant="forum", settings=WITHOUT) as graph:
            sides["without"] = _ranks(graph, later, answers[cut:])
    known = {one.asker for one in earlier}
    groups = {"all": range(len(later)), "known": [place for place, one in enumerate(later) if one.asker in known]}
    result: dict[str, Any] = {"questions": len(questions), "replies": len(replies), "groups": {}}
    for name, chosen in groups.items():
        if chosen:
            some = {side: [ranks[place] for place in chosen] for side, ranks in sides.items()}
            against = {f"after - {side}": difference_of(some["after"], some[side]) for side in ("before", "without")}
            means = {side: mean_of(ranks) for side, ranks in some.items()}
            result["groups"][name] = {"questions": len(chosen), **means, **against}
    return result


def _ranks(graph: SkillGraph, questions: Sequence[Question], answers: Sequence[Sequence[str]]) -> list[float]:
    """Return the reciprocal rank of the first answer to each question, or 0 if it isn't among the first ten."""
    found = []
    for question, right in zip(questions, answers, strict=True):
        hits = graph.recall(question.title, user=question.asker, k=10)
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
