"""Orders hits that are about the same thing by time, the newest first.

What states the same fact in a form that is understood has superseded the older statement already. This is for the rest:
statements that share most of their words and differ in a value of the same kind. Both are kept, and the newer one is
shown before the older. What the user has rated keeps the place that its rating gave it. Where the query names what one
of them says, that one was asked for, so their order stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from agentfw_memory.graph.facts.fact import EVERY_ANSWER
from agentfw_memory.graph.facts.statements import LONGEST_STATEMENT
from agentfw_memory.graph.facts.values import split_words, typed_values
from agentfw_memory.graph.records import Hit
from agentfw_memory.graph.text.words import terms

__all__ = ["newest_first"]

COMPARED = 20
"""Maximum number of hits that are compared with each other."""
SHARED = 0.5
"""Share of the longer statement's terms that both must have, names left out."""
_CHANGE = frozenset(
    term
    for word in split_words(
        """
    new newly now current currently change changed switch switched move moved update updated instead longer
    prefer prefers rather become became actually correction turn turned start started latest recently
    """
    )
    for term in terms(word)
)
"""Words that say that something changed, and not what."""


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
            ordered[place] = hit
    return ordered


def _same_thing(asked: frozenset[str], one: Hit, other: Hit) -> bool:
    if one.skill.owner != other.skill.owner or one.why.rating or other.why.rating:
        return False
    if one.skill.fact and other.skill.fact and not one.skill.fact.endswith(EVERY_ANSWER):
        return one.skill.fact == other.skill.fact
    mine, theirs = _stated(one.skill.text), _stated(other.skill.text)
    if mine is None or theirs is None or mine.kinds != theirs.kinds:
        return False
    common, only = mine.terms & theirs.terms, mine.terms ^ theirs.terms
    same_subject = bool(common & mine.names) or (mine.mine and theirs.mine) or not (mine.names or theirs.names)
    if only & asked or not same_subject:
        return False
    said = common - mine.names
    return bool(said) and len(said) >= SHARED * max(len(mine.terms - mine.names), len(theirs.terms - theirs.names))


class _Statement:
    """What two statements are compared by: terms without those of change, whom they are about, kinds of values."""

    def __init__(self, text: str) -> None:
        self.terms = frozenset(terms(text)) - _CHANGE
        self.names = frozenset(terms(" ".join(re.findall(r"\b(?!I\b)[A-Z]\w*", text)))) & self.terms
        self.mine = bool(re.search(r"\b(?:I|[Mm]y|[Mm]e)\b", text))
        self.kinds = frozenset(kind for kind, _ in typed_values(text))


@lru_cache(maxsize=4096)
def _stated(text: str) -> _Statement | None:
    return _Statement(text) if len(text) <= LONGEST_STATEMENT else None
