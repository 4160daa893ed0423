"""Recall as of an earlier time: what held then, also if it was superseded or retired since.

Texts that no longer hold are in no index. They are found by their words, and those that still hold by the usual recall.
Then both are embedded and compared with the query in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from agentfw_memory.graph.index.word_index import SHARED, WordIndex
from agentfw_memory.graph.metadata_filter import fits
from agentfw_memory.graph.recall.newest_first import newest_first
from agentfw_memory.graph.recall.recall import Recaller
from agentfw_memory.graph.records import Hit, Skill, SkillVersion, Why
from agentfw_memory.graph.rows.graph_rows import GraphRows

CANDIDATES = 4
"""Number of candidates by each way of finding them, for each skill to return."""


def recall_as_of(
    rows: GraphRows,
    recaller: Recaller,
    query: str,
    user: str,
    k: int,
    when: float,
    where: Mapping[str, Any],
    **context: Any,
) -> list[Hit]:
    """Return the k best skills of those that held at a time, as they were then. Their metadata has to fit `where`."""
    then = rows.held_at(when, rows.find("user", user) or 0)
    held = {number: one for number, one in then.items() if fits(one[1].metadata, where)}
    words = WordIndex()
    for number, (_, version) in held.items():
        words.put(number, version.text, SHARED)
    question = words.question(query, None)
    by_words = question.best(CANDIDATES * k).tolist()
    by_recall = [
        int(hit.skill.id[1:])
        for hit in recaller.recall(query, user, CANDIDATES * k, at_least=0.0, where=where, **context)
    ]
    found = [number for number in dict.fromkeys(by_words + by_recall) if number in held]
    if not found:
        return []
    vectors = recaller.embed([held[number][1].text for number in found])
    by_vector = vectors @ recaller.embed([query], query=True)[0]
    by_word = question.scores(np.array(found, np.int64))
    score = by_vector + by_word
    best = sorted(range(len(found)), key=lambda place: -score[place])
    now = rows.skills(found)
    facts = {number: now[number].fact if number in now else "" for number in found}
    hits = [
        Hit(float(score[place]), _as_it_was(number, facts[number], *held[number]), _why(float(by_vector[place])))
        for place in best
        for number in (found[place],)
    ]
    return newest_first(query, hits)[:k]


def _as_it_was(number: int, fact: str, owner: str, version: SkillVersion) -> Skill:
    return Skill(
        f"s{number}",
        owner,
        version.text,
        visibility=version.visibility,
        valid_from=version.valid_from,
        recorded_at=version.recorded_at,
        valid_to=version.valid_to,
        metadata=version.metadata,
        fact=fact,
        corrections=version.number,
    )


def _why(similarity: float) -> Why:
    return Why(similarity, *(0.0,) * 6, path="held at that time")
