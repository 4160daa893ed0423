"""Who answers about a conflict, and how an answer is parsed.

An answer that can't be parsed is asked for again, or is an error that names it. It is never taken for another.

    Enter          as proposed            b      keep B
    b she's new    keep B, and why        s      leave all of them as they are
    keep a         keep A                 u      undo the previous answer
    a: she's new   keep A, and why        q      stop here

    both           keep all of them, and don't ask again
    b series       keep B on every date on which these series clash like this
    b always       the same, also for new events with these titles
    b move         keep B, and ask to move the other's series
    rest           take this proposal and all that follow, unseen

Leave or a trip is one question about everything that somebody can't come to then: "a" stays away from all of it, and
"b d" goes to B and D. What is likely is one question, too: "a" declines all of it, and
"b d" keeps B and D this time.

`--answers FILE` has one of these a line, or is a JSON list of such texts, or of {"keep": "B", "why": "she's new"}; a
title does in the place of a letter. `--yes` takes every proposal. What it takes is no answer of a person, so nothing is
learned from it, and a later session asks about it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from agentfw.errors import UsageError

from ..ics.occurrences import Occurrence
from ..language.texts import Said, Texts
from ..language.wording import reason_in_words
from ..language.words import said
from .precedents import ALWAYS, SERIES, Precedent

_LETTER = re.compile(r"(keep\s+|take\s+)?([A-Za-z1-5])(\s?:|[.,)]|(?=\s)|$)\s*(.*)", re.S | re.I)
Kind = Literal["", "away", "usual", "whose"]
_SCOPES = (SERIES, ALWAYS, "move")
"""What may stand directly behind a letter, or behind "both"; its words are in the lists of all languages."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the events of a conflict, as it is shown."""

    letter: str
    one: Occurrence
    tags: dict[str, str]

    @property
    def title(self) -> str:
        return self.one.entry.title


@dataclass(frozen=True, slots=True)
class Question:
    """A conflict that somebody is asked about."""

    number: int
    of: int
    candidates: tuple[Candidate, ...]
    also: tuple[Occurrence, ...]
    """Other events on that day."""
    proposed: str
    """A letter, or empty if the policy has no proposal."""
    reason: str
    """The policy's reason, in its own words."""
    before: Precedent | None = None
    """What was decided before, if something has changed since."""
    kind: Kind = ""
    """`away`: the first candidate is an absence, and the others are what somebody can't come to because of it. `usual`:
    the others are what is likely declined, and `instead` has what each of them clashes with. In both, several letters
    can be kept, and `proposed` has all that are, or A alone. `whose`: whether the person goes to the only candidate, or
    somebody else does."""
    instead: tuple[Candidate, ...] = ()

    def candidate(self, letter: str) -> Candidate:
        return next(each for each in self.candidates if each.letter == letter)

    def because(self, texts: Texts) -> str:
        """Why the proposal is made, in words for the person."""
        return reason_in_words(self.reason, {each.letter: each.title for each in self.candidates}, texts)


@dataclass(frozen=True, slots=True)
class Answer:
    """The person's answer."""

    keep: str
    """A letter, or empty if all events are left as they are."""
    why: str = ""
    stop: bool = False
    undo: bool = False
    """Take back the previous answer, and ask about its conflict again."""
    both: bool = False
    """Keep all events, and don't ask about them again."""
    scope: str = ""
    """How far it holds: `series` or `always`; empty for these dates only."""
    move: bool = False
    """Ask to move the series of what is declined."""
    rest: bool = False
    """Take this proposal and all that follow."""


class NotUnderstood(ValueError):
    """Raised for an answer that can't be parsed; says what is allowed."""

    def __init__(self, name: str, /, **fields: str) -> None:
        self.said = Said(name, fields)
        super().__init__(Texts.of().say(self.said))


class Person(Protocol):
    """Answers questions about conflicts."""

    is_person: bool
    """Whether a person answers. Nothing is learned from the answers of a program, and they can be revisited."""

    def answer(self, question: Question) -> Answer: ...

    def told(self, question: Question, answer: Answer, declined: Sequence[Occurrence], learned: Sequence[str]) -> None:
        """Told what the answer changed. `learned` is what weighs more and less now, in the hub's words."""


def understood(text: str, question: Question) -> Answer:
    """Parse an answer."""
    words = text.strip()
    if question.kind == "whose" and words.lower() in {"", *said("me"), *said("somebody")}:
        return Answer("", both=True) if words.lower() in said("somebody") else Answer("A")
    letters = [candidate.letter for candidate in question.candidates]
    if not words:
        if not question.proposed:
            raise NotUnderstood("answer_no_proposal", letters=", ".join(letters))
        return Answer(question.proposed)
    if words.lower() in said("stop"):
        return Answer("", stop=True)
    if words.lower() in said("undo"):
        return Answer("", undo=True)
    if words.lower() in said("leave"):
        return Answer("")
    for both in _longest_first("both"):
        if words.lower() == both or words.lower().startswith(f"{both} "):
            return _with_scope(Answer("", both=True), words[len(both) :].strip(), question)
    if words.lower() in said("rest"):
        return Answer(question.proposed, rest=True)
    titled = [each.letter for each in question.candidates if each.title.casefold() == words.casefold()]
    if len(titled) == 1:
        return Answer(titled[0])
    several = words.upper().replace(",", " ").split()
    if question.kind and several and set(several) <= set(letters):
        return Answer("".join(letter for letter in letters if letter in several))
    match = _LETTER.fullmatch(words)
    if match is not None:
        verb, written, mark, why = match.groups()
        if written == "a" and why and not (verb or mark or _because(why) or _begins_with_scope(why)):
            raise NotUnderstood("answer_article", words=words[:40], why=why[:40])
        letter = written.upper() if written.isalpha() else "ABCDE"[int(written) - 1]
        if letter in letters:
            spoken = " ".join(why.split())
            is_reason = mark.strip() in (".", ":", ")")
            return Answer(letter, spoken) if is_reason else _with_scope(Answer(letter), spoken, question)
    name = "answer_reason" if " " in words else "answer_unknown"
    raise NotUnderstood(name, words=words[:40], letters=", ".join(letters))


def _with_scope(answer: Answer, words: str, question: Question) -> Answer:
    """The answer with how far it holds, and why."""
    lower = words.lower()
    for scope in _SCOPES:
        for name in _longest_first(scope):
            rest = words[len(name) :]
            if not lower.startswith(name) or rest[:1].isalnum():
                continue
            if rest.strip() and not (_because(rest.strip()) or rest.lstrip().startswith((":", ","))):
                raise NotUnderstood("answer_scope", name=name, rest=rest.strip()[:40], words=words[:40])
            is_series = any(each.one.of_series is not None for each in question.candidates)
            if scope != ALWAYS and not is_series:
                raise NotUnderstood("answer_no_series")
            reason = rest.lstrip(":, ")
            why = reason.removeprefix(_because(reason))
            is_move = scope == "move" and bool(answer.keep)
            return replace(answer, why=why, scope=SERIES if scope == "move" else scope, move=is_move)
    return replace(answer, why=words)


def _because(words: str) -> str:
    """The word with which a reason begins, in any language, and the blank behind it."""
    return next((f"{word} " for word in _longest_first("because") if words.startswith(f"{word} ")), "")


def _begins_with_scope(words: str) -> bool:
    names = "|".join(re.escape(name) for scope in _SCOPES for name in _longest_first(scope))
    return re.match(rf"(?:{names})(?:[:,]|$)", words, re.I) is not None


def _longest_first(meaning: str) -> list[str]:
    return sorted(said(meaning), key=len, reverse=True)


class Nobody:
    """Used without a terminal and without answers. Raises an error when anything is asked."""

    is_person = True

    def answer(self, question: Question) -> Answer:
        raise UsageError(
            "there is no terminal to ask on", fix="pass --list to see the conflicts, or --answers FILE or --yes"
        )

    def told(self, question: Question, answer: Answer, declined: Sequence[Occurrence], learned: Sequence[str]) -> None:
        pass


class TakesProposals:
    """`--yes`: accepts every proposal; without a proposal, all events are left as they are."""

    is_person = False

    def answer(self, question: Question) -> Answer:
        return Answer(question.proposed)

    def told(self, question: Question, answer: Answer, declined: Sequence[Occurrence], learned: Sequence[str]) -> None:
        pass


class AnswersGiven:
    """`--answers FILE`: gives the answers in order and stops after the last one."""

    is_person = True

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self._answers = _listed(text, source)
        self._used = 0

    def answer(self, question: Question) -> Answer:
        if self._used == len(self._answers):
            return Answer("", stop=True)
        place, text, why = self._answers[self._used]
        self._used += 1
        try:
            answer = understood(text, question)
        except NotUnderstood as error:
            raise UsageError(
                f"{self.source}, {place}: {error}",
                fix="correct it and run the same command again; earlier answers are kept",
            ) from None
        return replace(answer, why=why or answer.why)

    def told(self, question: Question, answer: Answer, declined: Sequence[Occurrence], learned: Sequence[str]) -> None:
        pass


def _listed(text: str, source: str) -> Sequence[tuple[str, str, str]]:
    """(place, answer, reason) of each answer; lines that begin with # are comments."""
    if not text.lstrip().startswith("["):
        lines = enumerate(io.StringIO(text), start=1)
        return [(f"line {number}", line, "") for number, line in lines if not line.lstrip().startswith("#")]
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{source} isn't valid JSON: {error}", fix='write ["A", {"keep": "B", "why": "..."}]'
        ) from None
    return [(f"answer {number}", *_one(value, f"{source}, answer {number}")) for number, value in enumerate(values, 1)]


def _one(value: Any, where: str) -> tuple[str, str]:
    if isinstance(value, str):
        return value, ""
    if isinstance(value, dict) and set(value) <= {"keep", "why"} and isinstance(value.get("why", ""), str):
        keep = value.get("keep", "")
        if keep is None:
            return "s", value.get("why", "")
        if isinstance(keep, str):
            return keep, value.get("why", "")
    raise UsageError(
        f"{where} is no answer", fix='write a text, or {"keep": "B", "why": "..."}; {"keep": null} leaves all'
    )
