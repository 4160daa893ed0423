"""Finds the facts that a question asks for: those of a subject it names, with the aspect it names.

>>> wanted_subjects("Where does Lena Berg live?", "ana")
['lena berg', 'lena', 'berg']
>>> asked_share("home", "Where does Lena Berg live?"), asked_share("phone", "Where does Lena Berg live?")
(1.0, 0.0)
"""

from __future__ import annotations

import re
from functools import lru_cache

from agentfw_memory.graph.facts.english import nouns

__all__ = ["asked_share", "wanted_subjects"]

LONGEST_QUESTION = 300
MAXIMUM_SUBJECTS = 24
_CAPITALS = re.compile(r"\b[A-Z\u00c0-\u024f\u0400-\u04ff][\w.-]*(?: (?:(?:van|von|de|da) )?[A-Z][\w.-]*)*")
_NO_NAME = re.compile(r"^(?:What|Who|Where|When|Which|How|Whose|Is|Does|Do|The|In|At|On|I)\b ?")
_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|we|us|our|user|user's|you|your)\b")
_MINE = re.compile(r"\b(?:my|our) ([\w-]+)(?:'s\b)?")

_MEANS = {
    trigger: frozenset(aspects.split())
    for triggers, aspects in (
        ("call phone number reach ring dial telephone mobile cell contact text", "phone number"),
        ("mail email write contact", "email"),
        ("live lives living based reside resides residing home city town house moved wohnt wohne", "home"),
        ("employed employs employer company employ", "employer"),
        ("role title position profession occupation job", "job"),
        ("manager manages managed boss report reports supervisor", "manager"),
        ("drive drives driving car", "car"),
        ("eat eats eating diet food", "diet food"),
        ("drink drinks", "drink"),
        ("wake wakes get alarm", "alarm"),
        ("called call address name", "name"),
        ("language reply replies answer answers respond", "language answers"),
        ("old age", "age"),
        ("cost costs spend pay pays much", "budget rent price salary fee"),
        ("big large many people size", "size"),
        ("sit seat seats", "seat"),
        ("celebrate celebrates", "party birthday"),
        ("colour color", "colour"),
        ("code open opens", "code"),
        ("married wife husband partner", "partner"),
    )
    for trigger in triggers.split()
    for aspects in (aspects,)
}
"""What a word of a question asks for, where the aspect isn't called so."""


def wanted_subjects(question: str, user: str) -> list[str]:
    """Return whom a question may be about, as subjects of facts are written."""
    if len(question) > LONGEST_QUESTION:
        return []
    found: dict[str, None] = {}
    plain = question.replace("’", "'")
    named = [_NO_NAME.sub("", run) for run in _CAPITALS.findall(plain)]
    for run in filter(None, named):
        words = run.casefold().split()
        for length in range(len(words), 0, -1):
            for start in range(len(words) - length + 1):
                found[" ".join(words[start : start + length])] = None
    folded, reader = plain.casefold(), user.casefold()
    mine = [f"{reader}'s {noun}" for noun in _MINE.findall(folded)]
    if _FIRST_PERSON.search(folded) or not found:
        mine.append(reader)
    return [*dict.fromkeys([*found, *mine])][:MAXIMUM_SUBJECTS]


def asked_share(aspect: str, question: str) -> float:
    """Return the share of an aspect's words that a question asks for."""
    wanted = {word for word in re.sub(r"\(\w+\)", "", aspect).split() if word not in ("favourite", "of")}
    return len(wanted & _asked(question)) / len(wanted) if wanted else 0.0


@lru_cache(maxsize=64)
def _asked(question: str) -> frozenset[str]:
    plain = re.findall(r"[\w-]+", question.casefold())
    work = {"work", "works", "working"}.intersection(plain) or (plain[-1:] == ["do"] and "what" in plain)
    as_what = work and {"as", "do"}.intersection(plain) - {"do" if plain[-1:] != ["do"] else ""}
    more = ["job" if as_what else "employer"] if work else []
    return frozenset(nouns(question)).union(*(_MEANS.get(word, ()) for word in plain), plain, more)
