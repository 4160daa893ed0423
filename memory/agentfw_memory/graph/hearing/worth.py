"""Decides by rules whether a sentence says something lasting, and of whom: its author, or somebody around them.

    >>> [said_of(one) for one in ("I'm allergic to nuts", "Never suggest black tea", "Antworte immer auf Deutsch")]
    ['me', 'me', 'me']
    >>> [said_of(one) for one in ("Our landlord is called Reyes", "Meine Schwester mag Tee")]
    ['our landlord', 'meine schwester']
    >>> [said_of(one) for one in ("What's for lunch?", "If I were vegan", "She likes tea", "I see, thanks")]
    [None, None, None, None]

Lasting is what people say of themselves in the first person, what they ask for once and for all, and what they say of
those around them: "my sister", "the boss". Questions, hypotheses, small talk, tasks for now and what is said of anybody
else are not. The words are in worth.json: English, German, French, Spanish, Italian, Portuguese, Russian, Arabic,
Chinese, Japanese, Korean and Hindi. Japanese and Korean leave out the first person, so a statement that names nobody
else counts as theirs.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files

__all__ = ["AUTHOR", "for_every_answer", "goes_on", "is_request", "said_of", "spoken_of"]

AUTHOR = "me"


_WORDS: dict[str, list[str]] = json.loads(
    files("agentfw_memory.graph.hearing").joinpath("worth.json").read_text("utf-8")
)


def _any(name: str) -> re.Pattern[str]:
    return re.compile("|".join(_WORDS[name]), re.IGNORECASE)


_QUESTION = _any("question")
_POLITE_REQUEST = _any("polite_request")
_HYPOTHESIS = _any("hypothesis")
_SMALL_TALK = _any("small_talk")
_AROUND = _any("around")
"""Who is somebody in the author's life, at the beginning of a sentence."""
_OTHERS = _any("others")
_FIRST_PERSON = _any("first_person")
_UNSAID_FIRST_PERSON = _any("unsaid_first_person")
_UNSAID_MATTER = _any("unsaid_matter")
"""What people write of themselves in notes, without a subject: "moved to Cork", "new address: 4 Mill Lane"."""
_NEWS = _any("news")
"""Words of a correction, or of what has changed."""
_FOR_GOOD = _any("for_good")
_TASK = _any("task")
_EVERY_ANSWER = _any("every_answer")
_CONTINUES = _any("continues")
"""What begins with a pronoun, or is no sentence, and says more of what the sentence before it was about."""
_OPENING = re.compile(
    r"^(?:\W|\b(?:oh|and|but|so|well|btw|by the way|also|hey|hi|hello|ok|okay|yes|yeah|nah|nope|"
    r"no,|actually|fyi|thanks|thank you|"
    r"thx|cheers|good (?:morning|evening)|haha|lol|hm+|ah|right|anyway|sorry|ojo|übrigens|"
    r"ach|nee|und|au fait|"
    r"por cierto|comunque|aliás|кстати)\b)+",
    re.IGNORECASE,
)
_CHANGE = re.compile(
    r"\b(?:moved?|changed?|swapped|switched|replaced|cancelled|canceled|postponed|renamed|left|quit|retired|new|now)\b",
    re.I,
)
_CLAUSE = re.compile(r",? (?:but|and|so|because|since|as) |[;:] ", re.I)
_NAMED = re.compile(
    r"\b(?:[Mm]y|[Oo]ur) (?:[a-z]\w+ ){1,2}(?:is |named |called )?([A-Z]\w+)|\b(?:called|named) ([A-Z]\w+)|"
    r"\b([A-Z]\w+),? \(?(?:my|our|is my|is our) [a-z]"
)
_OF_AUTHOR = re.compile(r"\b(?:[Mm]y|[Oo]ur) (\w{3,})")
_CLOSING = re.compile(
    r"(?:[\s,.!:;()-]+(?:thanks(?: so much| a lot)?|thank (?:you|god|goodness)|thx|ty|cheers|lol|haha|fyi|btw|"
    r":\)|😅|😂))+\W*$|,? (?:ok(?:ay)?|right|alright|yeah|yes|deal|please|pls)\?$",
    re.IGNORECASE,
)
"""What ends a statement without being part of it. "Short answers, ok?" asks nothing."""


def said_of(sentence: str, known: frozenset[str] = frozenset()) -> str | None:
    """Return whom a sentence says something lasting of, as the sentence calls them, or None if it doesn't.

    `known` is whom and what its author has spoken of, as `spoken_of` returns it.
    """
    plain = _plain(sentence)
    if _QUESTION.search(plain):
        return AUTHOR if _POLITE_REQUEST.search(plain) else None
    is_news = bool(_NEWS.search(plain))
    if _HYPOTHESIS.search(plain) or (_SMALL_TALK.search(plain) and not is_news):
        return None
    if around := _AROUND.search(plain):
        return around[0].casefold()
    if _OTHERS.search(plain):
        return _known_in(plain, known)
    own = (_FIRST_PERSON, _UNSAID_FIRST_PERSON, _UNSAID_MATTER)
    said = is_news or any(pattern.search(plain) for pattern in own)
    if _FOR_GOOD.search(plain) or (said and not _TASK.search(plain)):
        return AUTHOR
    if _TASK.search(plain):
        return None
    clauses = (_AROUND.search(clause) for clause in _CLAUSE.split(plain))
    return next((around[0].casefold() for around in clauses if around), None) or _known_in(plain, known)


def _known_in(plain: str, known: frozenset[str]) -> str | None:
    """Return the name that the author has used before, or the thing of theirs of which a sentence says what changed."""
    words = [word for word in re.findall(r"[\w-]+", plain) if word in known]
    return next((word for word in words if word[0].isupper() or _CHANGE.search(plain)), None)


def spoken_of(sentence: str) -> set[str]:
    """Return the names of those around the author in a sentence, and what it calls theirs.

    >>> sorted(spoken_of("Our boss Ida joined my choir, and we've a dog called Rex"))
    ['Ida', 'Rex', 'boss', 'choir']
    """
    names = {name for found in _NAMED.findall(sentence) for name in found if name}
    return names | {noun for noun in _OF_AUTHOR.findall(sentence) if noun.islower()}


def for_every_answer(sentence: str) -> bool:
    """Return whether a sentence says how its author wants to be answered, whatever they ask."""
    return said_of(sentence) == AUTHOR and _EVERY_ANSWER.search(_plain(sentence)) is not None


def goes_on(sentence: str) -> bool:
    """Return whether a sentence only makes sense after the one before it, such as "She's called Nora"."""
    plain = _plain(sentence)
    aside = (_QUESTION, _HYPOTHESIS, _SMALL_TALK, _TASK)
    return bool(_CONTINUES.search(plain)) and not any(pattern.search(plain) for pattern in aside)


def is_request(sentence: str) -> bool:
    """Return whether a sentence asks something, or asks for something."""
    plain = _plain(sentence)
    return any(pattern.search(plain) for pattern in (_QUESTION, _TASK))


def _plain(sentence: str) -> str:
    """Return a sentence without what begins and ends it in a chat."""
    whole = sentence.replace("’", "'").strip()
    return _CLOSING.sub("", _OPENING.sub("", whole)).strip() or whole
