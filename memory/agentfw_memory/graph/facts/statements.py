"""Reads what a statement says of somebody or something: subject, aspect and value.

    >>> fact = read_fact("Lena's phone number is now 030 555 0100", speaker="ana")
    >>> fact.subject, fact.aspect, fact.value
    ('lena', 'phone', '030 555 0100')
    >>> read_fact("I've moved to Hamburg.", speaker="ana").name
    'ana: home'
    >>> read_fact("I like hiking", speaker="ana") is None
    True

Only what can have one value at a time is a fact: somebody lives in one city and likes many things. Two statements with
the same `name` are about the same thing, so the newer one supersedes the older. The rules would rather miss a fact than
take two different ones for the same: what they miss is kept beside the older statement, and shown with its date.
"""

from __future__ import annotations

import re
from functools import lru_cache

from agentfw_memory.graph.facts.english import read_english
from agentfw_memory.graph.facts.fact import Fact

__all__ = ["LONGEST_STATEMENT", "read_fact", "says_more"]

LONGEST_STATEMENT = 200
"""Maximum number of characters of a statement. A longer text says more than one thing."""
LONGEST_NAME = 200
_MORE = re.compile(
    r"\b(?:and(?! [A-Z][\w-]+$)|but|or|because|with|so|although|though|while|who|which|whose|where)\b|[,;] "
)
"""What a further statement begins with. A name such as "Marks and Spencer" has none."""


def read_fact(text: str, speaker: str) -> Fact | None:
    """Return what a statement of this speaker says, or None if that can't be told."""
    if len(text) > LONGEST_STATEMENT or "\n" in text.strip():
        return None
    return _read(text, speaker.casefold())


def says_more(text: str, fact: Fact) -> bool:
    """Return whether a statement says anything beside its fact, which would be lost if it were superseded.

    >>> [says_more(one, read_fact(one, "ana")) for one in ("I live in Rome", "I live in Rome with my two kids")]
    [False, True]
    """
    place = text.casefold().find(fact.value.casefold())
    return _MORE.search(text[max(0, place) :]) is not None


@lru_cache(maxsize=4096)
def _read(text: str, speaker: str) -> Fact | None:
    plain = re.sub(r"\s+", " ", text.replace("’", "'")).strip()
    found = read_english(plain, speaker)
    return None if found is None or len(found.name) > LONGEST_NAME else found
