"""Decides by rules whether a sentence says something lasting of the person who wrote it.

    >>> [lasting(one) for one in ("I'm allergic to nuts", "Never suggest black tea", "Antworte immer auf Deutsch")]
    [True, True, True]
    >>> [lasting(one) for one in ("What's for lunch?", "If I were vegan", "She likes tea", "I see, thanks")]
    [False, False, False, False]

Lasting is what people say of themselves in the first person, and what they ask for once and for all. Questions,
hypotheses, small talk, tasks for now and what is said of others are not. The words are in worth.json: English, German,
French, Spanish, Italian, Portuguese, Russian, Arabic, Chinese, Japanese, Korean and Hindi. Japanese and Korean leave
out the first person, so a statement that names nobody else counts as theirs.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files

__all__ = ["lasting"]


_WORDS: dict[str, list[str]] = json.loads(
    files("agentfw_memory.graph.hearing").joinpath("worth.json").read_text("utf-8")
)


def _any(name: str) -> re.Pattern[str]:
    return re.compile("|".join(_WORDS[name]), re.IGNORECASE)


_QUESTION = _any("question")
_POLITE_REQUEST = _any("polite_request")
_HYPOTHESIS = _any("hypothesis")
_SMALL_TALK = _any("small_talk")
_OTHERS = _any("others")
_OWN_LIFE = _any("own_life")
"""What is said of somebody in the user's life and is about the user's life, too: what they are called, when one meets.
What they like or do is their own matter."""
_FIRST_PERSON = _any("first_person")
_UNSAID_FIRST_PERSON = _any("unsaid_first_person")
_UNSAID_MATTER = _any("unsaid_matter")
"""What people write of themselves in notes, without a subject: "moved to Cork", "new address: 4 Mill Lane"."""
_NEWS = _any("news")
"""Words of a correction, or of what has changed."""
_FOR_GOOD = _any("for_good")
_TASK = _any("task")
_OPENING = re.compile(
    r"^(?:\W|\b(?:oh|and|but|so|well|btw|by the way|also|hey|hi|hello|ok|okay|yes|yeah|nah|nope|"
    r"no,|actually|fyi|thanks|thank you|"
    r"thx|cheers|good (?:morning|evening)|haha|lol|hm+|ah|right|anyway|sorry|ojo|übrigens|"
    r"ach|nee|und|au fait|"
    r"por cierto|comunque|aliás|кстати)\b)+",
    re.IGNORECASE,
)


def lasting(sentence: str) -> bool:
    """Return whether a sentence says something lasting of its author."""
    plain = _OPENING.sub("", sentence.replace("’", "'")).strip() or sentence.strip()
    for_good = bool(_FOR_GOOD.search(plain))
    if _QUESTION.search(plain):
        return bool(_POLITE_REQUEST.search(plain))
    is_news = bool(_NEWS.search(plain))
    if _HYPOTHESIS.search(plain) or (_SMALL_TALK.search(plain) and not is_news):
        return False
    if _OTHERS.search(plain):
        return bool(_OWN_LIFE.search(plain))
    if for_good:
        return True
    own = (_FIRST_PERSON, _UNSAID_FIRST_PERSON, _UNSAID_MATTER)
    return not _TASK.search(plain) and (is_news or any(pattern.search(plain) for pattern in own))
