"""Remembers what a user says, as soon as it is said.

What is the user's own in a message is kept sentence by sentence, as it was said, if it says something lasting. A
sentence that states a fact supersedes the older one, as a learned skill does. What a user says of somebody around them
is kept with whom it is about ("about" in its metadata), and of anybody else only a fact, or what is said of them once
the user has spoken of them. How they want to be answered
is marked, since it holds whatever they ask. A message is heard once, by its id, and written in one transaction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b

from agentfw_memory.errors import BadInputError
from agentfw_memory.graph.facts.fact import EVERY_ANSWER
from agentfw_memory.graph.facts.statements import read_fact
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.hearing.own_words import own_words
from agentfw_memory.graph.hearing.worth import AUTHOR, for_every_answer, goes_on, said_of, spoken_of
from agentfw_memory.graph.learning.editing import Editor
from agentfw_memory.graph.learning.sharing import check_not_reserved
from agentfw_memory.graph.recall.recall import Recaller
from agentfw_memory.graph.records import Heard, NewSkill
from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.graph.rows.row_types import EdgeRow
from agentfw_memory.graph.text.words import tokens
from agentfw_memory.graph.validation import check_name, check_number, check_skill

__all__ = ["Hearer", "Listener", "worth_keeping"]

Listener = Callable[[Sequence[str], str], Sequence[str]]
"""Called with the user's own sentences of a message and the user's name. Returns what to keep of them."""

MOST_KEPT = 20
"""Maximum number of statements that are kept of one message."""
REMEMBERED = 200
"""Number of a user's newest statements in which names are looked for that a message may go on about."""


class Hearer:
    """Hears for one tenant."""

    def __init__(
        self, rows: GraphRows, recaller: Recaller, editor: Editor, settings: GraphSettings, listener: Listener
    ) -> None:
        self._rows, self._recaller, self._editor = rows, recaller, editor
        self._settings, self._listener = settings, listener

    def hear(self, text: str, user: str, conversation: str, at: float | None, saying: str) -> Heard:
        check_name("user", user)
        check_not_reserved("user", user)
        name = blake2b(f"{user}\0{saying}".encode(errors="replace"), digest_size=16).hexdigest() if saying else ""
        if conversation:
            check_name("conversation", conversation)
        if not isinstance(text, str):
            raise BadInputError(f"the saying is of type {type(text).__name__}, not a string", fix="pass a string")
        when = None if at is None else min(check_number("at", at), self._rows.now())
        if not self._settings.evolve:
            return Heard(saying)
        if name and self._rows.find("saying", name) is not None:
            return Heard(saying, known_already=True)
        spoken = self._spoken_of(user)
        kept, problem = self._kept(own_words(text), user, spoken)
        wanted = [NewSkill(user, one, valid_from=when, metadata=_about(one, user, spoken)) for one in kept]
        if not wanted:
            return Heard(saying, problem=problem)
        vectors = self._recaller.embed([skill.text for skill in wanted])
        with self._rows.writing() as change:
            if name and self._rows.find("saying", name) is not None:
                return Heard(saying, known_already=True)
            written = self._editor.write(change, wanted, vectors)
            edges = []
            for number in dict.fromkeys(check_skill(skill.id) for skill in written):
                known = self._rows.edge_rows(number)
                self._rows.end_edges(change, [row for row in known if row.kind == "SAID_IN"])
                if conversation:
                    talk = self._rows.nodes(change, "conversation", [conversation])[conversation]
                    edges.append(EdgeRow("SAID_IN", number, talk))
                if name:
                    edges.append(EdgeRow("SAID_AS", number, self._rows.nodes(change, "saying", [name])[name]))
            fact = f"{user.casefold()}: {EVERY_ANSWER}"
            for skill in written:
                if not skill.fact and for_every_answer(skill.text):
                    node = self._rows.nodes(change, "fact", [fact])[fact]
                    edges.append(EdgeRow("STATES", check_skill(skill.id), node))
            self._rows.add_edges(change, edges)
            self._rows.touch(change, [check_skill(skill.id) for skill in written])
        return Heard(saying, kept=tuple(dict.fromkeys(skill.id for skill in written)), problem=problem)

    def _spoken_of(self, user: str) -> frozenset[str]:
        """Return whom and what the user has spoken of as theirs, in what is kept of them."""
        owner = self._rows.find("user", user)
        numbers = [] if owner is None else self._rows.owned(owner)[-REMEMBERED:]
        return frozenset(one for text in self._rows.texts(numbers).values() for one in spoken_of(text))

    def _kept(self, sentences: Sequence[str], user: str, known: frozenset[str]) -> tuple[list[str], str]:
        """Return what to keep, and what was wrong with the listener's answer if the rules had to do without it."""
        said = [one for one in sentences if one.strip()]
        plain = [_storable(one, self._settings.longest_text) for one in worth_keeping(said, user, known)][:MOST_KEPT]
        if not said or self._listener is worth_keeping:
            return plain, ""
        try:
            statements = _listed(self._listener(said, user))
        except Exception as error:  # it may be a model, which fails in any way
            return plain, f"the listener failed ({type(error).__name__}: {error}); the rules were used"
        words = set(tokens(" ".join(said))) | set(tokens(user)) | _ALLOWED
        told = [one for one in statements if set(tokens(one)) <= words]
        true = [_storable(one, self._settings.longest_text) for one in told if not _turned(one, said)]
        invented, turned = len(statements) - len(told), len(told) - len(true)
        problem = f"{invented} statements had words that weren't said, and were left out" if invented else ""
        problem += "; " if invented and turned else ""
        problem += f"{turned} statements left out a negation, or added one, and were left out" if turned else ""
        return true[:MOST_KEPT], problem


def _listed(answer: object) -> list[str]:
    """Return what a listener answered, if it is a list of texts."""
    if not isinstance(answer, (list, tuple)) or not all(isinstance(one, str) for one in answer):
        raise TypeError("it returned something else than a list of texts")
    return [one for one in answer if one.strip()]


def _turned(statement: str, said: Sequence[str]) -> bool:
    """Return whether a statement denies what the sentence says that it has most words of, or the other way round."""
    own = set(tokens(statement))
    source = max(said, key=lambda sentence: len(own & set(tokens(sentence))))
    return bool(_NEGATION.search(statement)) != bool(_NEGATION.search(source))


_NEGATION = re.compile(
    r"n['’]?t\b|\b(?:not|no|never|without|nicht|nie|kein\w*|ohne|pas|jamais|sans|nunca|non|mai|senza|não|sin|sem|не|ни|без|никогда)\b|"
    r"لا|ليس|لم|不|没|ない|ません|안 |못|없|않|नहीं|मत",
    re.IGNORECASE,
)
_ALLOWED = frozenset(["i", "my", "am", "is", "the", "a", "user", "s"])
"""Words that a listener may use though they weren't said."""


def worth_keeping(sentences: Sequence[str], user: str, known: frozenset[str] = frozenset()) -> list[str]:
    """Return the sentences that say something lasting of the user and those around them, or a fact about anybody.

    `known` are names and words that the user has used for those around them, and for what is theirs.

    A sentence that goes on from one that is kept stays with it. A fact stands alone, so that a newer one supersedes it.
    """
    kept, goes_with = list[str](), False
    for sentence in sentences:
        if goes_with and goes_on(sentence):
            kept[-1] += f" {sentence}"
        elif goes_with := said_of(sentence, known) is not None or _fact_of_another(sentence, user):
            kept.append(sentence)
            goes_with = read_fact(sentence, user) is None
    return kept


def _about(statement: str, user: str, known: frozenset[str]) -> dict[str, str]:
    """Return whom a statement is about, unless that is the user, or told by the fact that it states."""
    whom = said_of(statement, known)
    return {} if whom in (None, AUTHOR) or read_fact(statement, user) else {"about": str(whom)}


def _fact_of_another(sentence: str, user: str) -> bool:
    fact = read_fact(sentence, user)
    return fact is not None and fact.subject != user.casefold()


def _storable(text: str, longest: int) -> str:
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", text)[:longest]
