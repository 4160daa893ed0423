"""Orders hits that are about the same thing by time, the newest first, and marks those that were corrected.

What is about the same thing was found when it was heard (learning/same_thing.py), or shares most of its words with
another hit of its owner. Both are kept. What the user has rated, or what a named scenario or tool brought, keeps its
place. Where the query names what one of them says, that one was asked for, so their order stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentfw_memory.graph.records import Hit
from agentfw_memory.graph.text.words import terms

EVERY_ANSWER = "every answer"
"""The fact that is stated by how a user wants to be answered. Unlike others, one may have several of these."""
COMPARED = 20
"""Maximum number of hits that are compared with each other."""
LONGEST_STATEMENT = 200
"""Maximum number of characters of what is compared by its words. A longer text says more than one thing."""
SHARED = 0.5
"""Share of the longer statement's terms that both must have."""


def newest_first(query: str, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits, in which those about the same thing have exchanged their places."""
    asked, ordered = frozenset(terms(query)), list(hits)
    groups: list[list[int]] = []
    for place, hit in enumerate(ordered[:COMPARED]):
        group = next((some for some in groups if _same_thing(asked, ordered[some[0]], hit)), None)
        if group is None:
            groups.append([place])
        else:
            group.append(place)
    for group in groups:
        by_time = sorted((hits[place] for place in group), key=lambda hit: -hit.skill.valid_from)
        for place, hit in zip(group, by_time, strict=True):
            same = hit.skill.fact != "" and hit.skill.fact == by_time[0].skill.fact
            older = same and hit.skill.valid_from < by_time[0].skill.valid_from
            ordered[place] = replace(hit, newer=by_time[0].skill.id) if older else hit
    return ordered


def _same_thing(asked: frozenset[str], one: Hit, other: Hit) -> bool:
    if one.why.rating or other.why.rating or one.why.context != other.why.context:
        return False
    facts = {hit.skill.fact for hit in (one, other)} - {""}
    if len(facts) == 1 and one.skill.fact == other.skill.fact and not one.skill.fact.endswith(EVERY_ANSWER):
        return True
    if one.skill.owner != other.skill.owner or max(len(one.skill.text), len(other.skill.text)) > LONGEST_STATEMENT:
        return False
    mine, theirs = frozenset(terms(one.skill.text)), frozenset(terms(other.skill.text))
    if (mine ^ theirs) & asked or not (mine and theirs):
        return False
    return len(mine & theirs) >= SHARED * max(len(mine), len(theirs)) and len(mine & theirs) > 1
